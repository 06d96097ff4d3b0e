"""Calls: what becomes of the calls of a reply, and the runs inside them."""

from .batch import Batch
from .decisions import UsedTokens
from .questions import Slot, with_decided_args
from .site import ITSELF, Site, site_of, token_for, waiting_for

__all__ = [
    "ITSELF",
    "Batch",
    "Site",
    "Slot",
    "UsedTokens",
    "site_of",
    "token_for",
    "waiting_for",
    "with_decided_args",
]
