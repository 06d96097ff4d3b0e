"""Checkpoints: what a thread's log holds, who keeps it, and how a run reads and writes it."""
