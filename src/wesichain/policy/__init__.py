"""Policies: what a run does after an error, what it may spend, and the prices of models."""

from typing import TYPE_CHECKING

from wesichain.core.internal import Price, Prices, PriceTier, Spent, cost_of, lazy_getattr

from .approvers import four_eyes
from .budget import Budget
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
)
from .shared_limits import SharedLimit

if TYPE_CHECKING:
    from .price_lookup import cost_of_events, find_cost, find_price
else:
    __getattr__ = lazy_getattr(
        __name__,
        {".price_lookup": ("cost_of_events", "find_cost", "find_price")},
        moved_to=("wesichain.policy.internal",),
    )

__all__ = [
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
    "SharedLimit",
    "Spent",
    "cost_of",
    "cost_of_events",
    "find_cost",
    "find_price",
    "four_eyes",
]
