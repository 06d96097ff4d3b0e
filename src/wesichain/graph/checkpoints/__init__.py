"""Checkpoints: the entries of a thread's log, how they are stored, and how a run reads and writes them."""
