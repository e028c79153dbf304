"""The verdict on a job's end, and the job's output, variables and files."""
