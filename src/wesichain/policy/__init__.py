"""Policies: what a run does after an error, what it may spend, and the prices of models."""

from wesichain.core.internal import Price, Prices, PriceTier, Spent, cost_of

from .budget import Account, Budget
from .decisions import (
    Fail,
    Interrupt,
    N,
    OnceWithToolCatalog,
    PolicyDecision,
    Reprompt,
    RepromptStrategy,
    Retry,
)
from .engines import (
    Backoff,
    FailFast,
    ObserveErrors,
    PolicyEngine,
    Recovery,
    RepromptN,
    RepromptOnceWithToolCatalog,
    Rule,
    RunView,
    SelfCorrect,
    Table,
    chain_of,
)
from .find_price import cost_of_events, cost_of_spent, find_cost, find_price

__all__ = [
    "Account",
    "Backoff",
    "Budget",
    "Fail",
    "FailFast",
    "Interrupt",
    "N",
    "ObserveErrors",
    "OnceWithToolCatalog",
    "PolicyDecision",
    "PolicyEngine",
    "Price",
    "PriceTier",
    "Prices",
    "Recovery",
    "Reprompt",
    "RepromptN",
    "RepromptOnceWithToolCatalog",
    "RepromptStrategy",
    "Retry",
    "Rule",
    "RunView",
    "SelfCorrect",
    "Spent",
    "Table",
    "chain_of",
    "cost_of",
    "cost_of_events",
    "cost_of_spent",
    "find_cost",
    "find_price",
]
