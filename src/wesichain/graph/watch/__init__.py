"""Observers, the event log and streams of a run."""
