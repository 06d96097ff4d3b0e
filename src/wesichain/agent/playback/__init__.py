"""Playback: a recording answers the loop in place of model and tools."""

__all__: list[str] = []
