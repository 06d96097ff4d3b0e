"""The calls of a reply, their approvals, and the runs inside them."""

__all__: list[str] = []
