"""Reads and writes `clusters.toml`, and holds the templates of real clusters."""
