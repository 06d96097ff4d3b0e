"""Experiments: designs, worlds and harnesses; the results of a run are written beside them."""
