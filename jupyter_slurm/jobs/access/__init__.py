"""Opens ways into a running job: tunnels, terminals, sessions, labs."""
