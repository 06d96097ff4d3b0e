"""Deterministic simulation of an agent: virtual time, faults at every boundary, reproducible by seed."""

__all__: list[str] = []
