"""What is kept of each job on this machine, and what is new of it."""
