"""The account of a graph's run: what its agents spend together, and may spend."""

from __future__ import annotations

from dataclasses import replace
from sys import maxsize

from wesichain.core.internal import Spent
from wesichain.policy import Account, Budget

_NO_LIMIT = Budget(steps=maxsize)


def open_account(budget: Budget | None, now: float, spent: Spent | None) -> Account:
    """An account that has spent what its thread has. Each agent that draws on it brings its own model."""
    limit = budget or _NO_LIMIT
    account = Account(replace(limit, cost=None), now=now, spent=spent)
    account.budget = limit  # a limited cost needs the prices of the agents' models, not of one here
    return account
