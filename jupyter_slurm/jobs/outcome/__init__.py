"""Judge the end of a job, and return its output, variables and files."""
