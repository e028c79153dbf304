"""Submit jobs, watch them, and return their outcome."""
