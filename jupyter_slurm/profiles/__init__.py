"""`clusters.toml` -> ClusterProfile, read and written; templates of real clusters."""
