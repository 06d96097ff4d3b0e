"""Memory: the messages before a run, made to fit into a request, and kept for the next one."""

__all__: list[str] = []
