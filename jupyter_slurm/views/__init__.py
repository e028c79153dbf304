"""PURE. Format values as text, tables, HTML or cards."""
