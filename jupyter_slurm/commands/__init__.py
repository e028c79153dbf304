"""Commands of all front ends: their table, parsing, help and functions."""
