"""A package, so that the package `tests.ui` has that name."""
