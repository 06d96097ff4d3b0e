"""Handoffs: what can change between two steps of a run: the agent that acts, and its tools."""

__all__: list[str] = []
