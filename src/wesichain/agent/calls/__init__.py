"""Calls: what becomes of the calls of a reply, and the runs inside them."""

__all__: list[str] = []
