"""Access to running jobs through tunnels, terminals, sessions and labs."""
