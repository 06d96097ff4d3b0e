"""ReAct in a graph: `node` runs an agent as one node, `stepwise` has the loop as a graph of its own."""
