"""Claude's reasoning: how an effort or a budget is put to it, by Anthropic and by Bedrock alike. Pure."""

from __future__ import annotations

from typing import Any

from wesichain.core import ModelSettings
from wesichain.errors import ConfigError

from .supported_settings import ReasoningForm

SMALLEST_BUDGET = 1024  # tokens of thought, which the API demands at least
BUDGETS = {"low": 2048, "medium": 8192, "high": 24_576}  # for models that take no effort


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
