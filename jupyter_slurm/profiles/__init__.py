"""Profiles of clusters: `clusters.toml` and templates of known clusters."""
