"""The journal: one log under every run, which a run continues from, and which everything else is read from."""
