"""One policy for all that goes wrong: decisions, budgets, engines."""

from .budget import Account, Budget, Prices, Spent
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
    chain_of,
)

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
    "Prices",
    "Recovery",
    "Reprompt",
    "RepromptN",
    "RepromptOnceWithToolCatalog",
    "RepromptStrategy",
    "Retry",
    "Rule",
    "RunView",
    "Spent",
    "chain_of",
]
