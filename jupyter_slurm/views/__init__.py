"""PURE. A value -> what people see: text, table, HTML, card."""
