"""PURE. Turn the words that people type into requests."""
