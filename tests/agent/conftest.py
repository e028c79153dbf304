"""Nothing but what pytest must not collect here."""

# Collected for doctests it would be imported before the test modules can name it as their plugin.
collect_ignore = ["plugin.py"]
