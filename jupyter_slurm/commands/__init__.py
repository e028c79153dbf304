"""Parse users' commands into requests."""
