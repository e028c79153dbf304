"""Ways into a job that runs: tunnels, terminals, sessions, labs."""
