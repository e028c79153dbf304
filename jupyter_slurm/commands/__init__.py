"""PURE. The words that people type -> what is asked for."""
