"""The journal: the result of each step of a run, stored before the loop receives it."""
