"""The transport that all adapters share: retries, deadlines, size limits and errors."""

__all__: list[str] = []
