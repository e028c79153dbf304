"""A package, so that `tests.ui`, which has to be one, is known by that name."""
