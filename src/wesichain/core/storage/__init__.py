"""Storage: files and databases that any number of event loops, threads and processes work on at once."""

from .workers import Workers

__all__ = ["Workers"]
