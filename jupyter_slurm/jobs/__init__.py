"""Submits jobs, watches them, and returns their outcome."""
