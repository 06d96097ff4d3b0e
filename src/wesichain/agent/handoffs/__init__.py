"""Handoffs, and the agent and tools of a run that can change between two steps."""

__all__: list[str] = []
