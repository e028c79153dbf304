"""Records of jobs on this machine, and their changes."""
