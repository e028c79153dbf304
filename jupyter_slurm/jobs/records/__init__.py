"""The local records of jobs, and the changes to jobs."""
