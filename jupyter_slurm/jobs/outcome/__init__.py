"""Judges how a job ended, and returns its output, variables and files."""
