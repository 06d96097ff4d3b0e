"""Mutants: one law broken at a time, in a copy of the source, to see whether the tests notice."""
