"""The instructions and the time that a node gives the run of its agent."""

from __future__ import annotations

from typing import Any

from wesichain.core import PromptTemplate
from wesichain.graph.context import GraphContext
from wesichain.graph.state import is_mapping


def instructions(prompt: str | PromptTemplate | None, state: Any) -> str | None:
    """The prompt as a text; a template's placeholders are filled from the state."""
    if not isinstance(prompt, PromptTemplate):
        return prompt
    if is_mapping(state):
        return prompt.render(**{name: state[name] for name in prompt.variables if name in state})
    return prompt.render(**{name: getattr(state, name) for name in prompt.variables if hasattr(state, name)})


def seconds_left(ctx: GraphContext) -> float | None:
    return None if ctx.deadline is None else max(0.0, ctx.deadline - ctx.clock.monotonic())
