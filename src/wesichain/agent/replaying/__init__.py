"""Replaying: a recording as a script that the loop follows."""

__all__: list[str] = []
