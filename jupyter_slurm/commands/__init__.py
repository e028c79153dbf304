"""PURE. Parse users' commands into requests."""
