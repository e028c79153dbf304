"""Cluster profiles: `clusters.toml`, and templates of known clusters."""
