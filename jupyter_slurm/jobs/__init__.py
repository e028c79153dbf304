"""Submission, watching and outcome of jobs."""
