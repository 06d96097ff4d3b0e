"""The journal: what the steps of a run have come to, written down before the loop hears of it."""
