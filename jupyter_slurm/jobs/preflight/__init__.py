"""Checks a job before it is sent: limits, cost and expected start."""
