"""Access to running jobs: tunnels, terminals, sessions, labs."""
