"""Watching a run: observers, the event log, streams and drawings."""
