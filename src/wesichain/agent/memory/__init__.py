"""Memory: the history of a run, and the conversations that keep it between runs."""

__all__: list[str] = []
