"""ReAct in a graph: an agent as one node. The loop as a graph of its own is in `stepwise`."""
