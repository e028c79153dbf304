"""Keeps the records of jobs on this machine, and tells what has changed."""
