"""Memory: what was said before a run, made fit to be shown, and kept for the next one."""

__all__: list[str] = []
