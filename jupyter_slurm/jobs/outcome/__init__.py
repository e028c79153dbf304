"""How a job ended, and what comes back of it."""
