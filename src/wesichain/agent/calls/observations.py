"""Observations: what the model is shown of a call, from its result or its failure."""

from __future__ import annotations

from wesichain.agent.trail import Observed
from wesichain.core import ToolCall, constructor_of, text_of
from wesichain.tools import ToolResult

_observed = constructor_of(Observed)


def observed_of(call: ToolCall, result: ToolResult) -> Observed:
    """A result as it is kept; `finish` says that it ends the run."""
    value = result.value
    return _observed(value, text_of(value), call.id, call.name, True, result.parts, result.finish)


def failed(call: ToolCall, text: str) -> Observed:
    return Observed(text, text, call.id, call.name, ok=False)
