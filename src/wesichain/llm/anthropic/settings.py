"""Model settings as the messages API writes them. Pure."""

from __future__ import annotations

from typing import Any

from wesichain.core import LlmRequest, ModelSettings
from wesichain.errors import ConfigError
from wesichain.llm.calls import ToolNames, stops_of, tool_choice
from wesichain.llm.supported_settings import ReasoningForm

SMALLEST_BUDGET = 1024  # tokens of thought, which the API demands at least
BUDGETS = {"low": 2048, "medium": 8192, "high": 24_576}  # for models that take no effort


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


def thinking_of(settings: ModelSettings, form: ReasoningForm) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration of Claude's thinking, and the effort beside it, in the form that the model takes."""
    match settings.reasoning:
        case None:
            return None, None
        case "off":
            return {"type": "between_tools" if form == "between_tools" else "disabled"}, None
        case int() as budget:
            return _budget(budget), None
        case effort:
            if form == "budget":
                return _budget(BUDGETS[effort]), None
            return {"type": "adaptive"}, effort


def _budget(tokens: int) -> dict[str, Any]:
    if tokens < SMALLEST_BUDGET:
        raise ConfigError(f"reasoning={tokens}: Claude thinks with {SMALLEST_BUDGET} tokens or more")
    return {"type": "enabled", "budget_tokens": tokens}


def reply_limit(settings: ModelSettings, thinking: dict[str, Any] | None, *, default: int) -> int | None:
    """The limit on a reply, in which the provider counts the thoughts too; None where the default holds."""
    budget: int = (thinking or {}).get("budget_tokens", 0)
    if settings.max_tokens is None:
        return default + budget if budget else None
    if settings.max_tokens <= budget:
        raise ConfigError(
            f"max_tokens={settings.max_tokens} leaves no room for an answer beside {budget} tokens of "
            f"reasoning; raise max_tokens, or lower reasoning"
        )
    return settings.max_tokens


def _choice(request: LlmRequest, names: ToolNames) -> dict[str, Any] | None:
    choice, parallel = tool_choice(request, names), request.settings.parallel_tool_calls
    if not request.tools or (choice is None and parallel is None):
        return None
    kind = "auto" if choice is None else {"required": "any"}.get(choice.kind, choice.kind)
    named = {"name": choice.name} if choice is not None and choice.name else {}
    one_at_a_time = {} if parallel is None or kind == "none" else {"disable_parallel_tool_use": not parallel}
    return {"type": kind, **named, **one_at_a_time}
