"""Replay of recorded runs: a recording takes the place of the model and the tools."""

__all__: list[str] = []
