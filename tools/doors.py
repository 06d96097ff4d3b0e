"""The modules that have public names, and these names."""

from __future__ import annotations

import importlib
from functools import cache

DOORS = (
    "wesichain",
    "wesichain.agent",
    "wesichain.tools",
    "wesichain.tools.mcp",
    "wesichain.policy",
    "wesichain.middleware",
    "wesichain.context",
    "wesichain.core",
    "wesichain.core.events",
    "wesichain.errors",
    "wesichain.llm",
    "wesichain.llm.openai",
    "wesichain.llm.anthropic",
    "wesichain.llm.google",
    "wesichain.llm.bedrock",
    "wesichain.llm.local",
    "wesichain.llm.react_text",
    "wesichain.llm.fallback",
    "wesichain.llm.limiter",
    "wesichain.journal",
    "wesichain.graph",
    "wesichain.graph.sqlite",
    "wesichain.graph.postgres",
    "wesichain.learning",
    "wesichain.kit",
    "wesichain.evals",
    "wesichain.durable",
    "wesichain.trace",
    "wesichain.trace.otel",
    "wesichain.testing",
    "wesichain.edge",
    "wesichain.web",
)


def names_of(module: object) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    here = getattr(module, "__name__", "")
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == here and callable(value)
    )


@cache
def offered(door: str) -> tuple[str, ...]:
    return tuple(names_of(importlib.import_module(door)))


@cache
def public_names() -> frozenset[str]:
    """The names that can be imported from any of the doors."""
    return frozenset(name for door in DOORS for name in offered(door))
