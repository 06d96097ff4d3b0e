"""Commands that run an agent on the tasks of a file: batches, evaluations, improvements."""
