"""Finds out how a job ended, and brings back its output, variables and files."""
