"""ReAct in a graph: an agent as one node. The loop as a graph of its own is in `stepwise`."""

from .agent_node import AgentNode, is_agent
from .failures import ToolFailurePolicy
from .node import ReActAgentNode

__all__ = ["AgentNode", "ReActAgentNode", "ToolFailurePolicy", "is_agent"]
