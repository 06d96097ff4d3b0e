"""Calls: what becomes of the calls of a reply, and the runs inside them."""

from .agent_tool import AgentTool
from .batch import Batch
from .decisions import Decisions
from .questions import Slot, with_decided_args
from .site import Site, site_of, token_for

__all__ = ["AgentTool", "Batch", "Decisions", "Site", "Slot", "site_of", "token_for", "with_decided_args"]
