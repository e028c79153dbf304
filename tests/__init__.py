"""A package, so that `tests/ui` is the package `tests.ui`."""
