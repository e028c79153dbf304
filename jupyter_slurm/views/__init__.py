"""PURE. Show a value as people see it: as text, a table, HTML or a card."""
