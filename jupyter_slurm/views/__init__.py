"""Values as text, tables, HTML or cards. No I/O."""
