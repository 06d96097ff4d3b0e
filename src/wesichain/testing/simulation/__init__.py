"""Deterministic simulation of an agent: virtual time, faults at every boundary, seeds that reproduce."""

__all__: list[str] = []
