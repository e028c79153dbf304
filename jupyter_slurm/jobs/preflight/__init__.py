"""Check a job before it is submitted: limits, cost and expected start."""
