"""Sets of our own making, in the form of the outside corpora: a clone without those leaves nothing untested."""
