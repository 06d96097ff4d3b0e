"""Benchmarks: every figure in the README and the docs comes from a script here."""
