"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

__all__: list[str] = []
