"""Calls: what becomes of the calls of a reply, and the runs inside them."""

from .batch import Batch, Slot
from .call_approvals import with_decided_args
from .decisions import UsedTokens
from .open_call import ITSELF, InnerRun, OpenCall, inner_run, token_for, waiting_for

__all__ = [
    "ITSELF",
    "Batch",
    "InnerRun",
    "OpenCall",
    "Slot",
    "UsedTokens",
    "inner_run",
    "token_for",
    "waiting_for",
    "with_decided_args",
]
