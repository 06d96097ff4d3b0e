"""Model settings as the messages API writes them. Pure."""

from __future__ import annotations

from typing import Any

from wesichain.core import LlmRequest
from wesichain.llm.calls import ToolNames, stops_of, tool_choice
from wesichain.llm.claude_reasoning import reply_limit, thinking_of
from wesichain.llm.supported_settings import ReasoningForm


def message_settings(
    request: LlmRequest, names: ToolNames, *, max_tokens: int, form: ReasoningForm
) -> dict[str, Any]:
    """The fields of a request for its settings; None of those that are not set."""
    settings = request.settings
    thinking, effort = thinking_of(settings, form)
    return {
        "max_tokens": reply_limit(settings, thinking, default=max_tokens),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": stops_of(request) or None,
        "thinking": thinking,
        **({} if effort is None else {"output_config": {"effort": effort}}),
        "tool_choice": _choice(request, names),
        "service_tier": settings.service_tier,
    }


def _choice(request: LlmRequest, names: ToolNames) -> dict[str, Any] | None:
    choice, parallel = tool_choice(request, names), request.settings.parallel_tool_calls
    if not request.tools or (choice is None and parallel is None):
        return None
    kind = "auto" if choice is None else {"required": "any"}.get(choice.kind, choice.kind)
    named = {"name": choice.name} if choice is not None and choice.name else {}
    one_at_a_time = {} if parallel is None or kind == "none" else {"disable_parallel_tool_use": not parallel}
    return {"type": kind, **named, **one_at_a_time}
