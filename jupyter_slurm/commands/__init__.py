"""PURE. Turn the words that users type into requests."""
