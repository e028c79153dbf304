"""What is known before a job is sent: what cannot be, what it costs, when it would start."""
