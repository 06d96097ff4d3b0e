"""ReAct in a graph: an agent as one node, and the loop as a graph of its own."""

from .failures import ToolFailurePolicy
from .node import ReActAgentNode
from .stepwise import ReActGraph, ReActOutput, react_graph

__all__ = ["ReActAgentNode", "ReActGraph", "ReActOutput", "ToolFailurePolicy", "react_graph"]
