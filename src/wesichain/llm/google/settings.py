"""Model settings as fields of Gemini's `GenerateContentConfig`. Pure."""

from __future__ import annotations

from typing import Any

from wesichain.core import LlmRequest, ModelSettings
from wesichain.llm.calls import ToolNames, stops_of, tool_choice
from wesichain.llm.supported_settings import ReasoningForm

_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE", "tool": "ANY"}
_BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24_576}  # Google's own, for models without levels


def config_settings(request: LlmRequest, names: ToolNames, form: ReasoningForm) -> dict[str, Any]:
    """The fields for the settings of a request; None of those that are not set."""
    settings = request.settings
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens,
        "seed": settings.seed,
        "stop_sequences": stops_of(request) or None,
        "thinking_config": _thinking(settings, form),
        "tool_config": _tools(request, names),
        "service_tier": settings.service_tier,
    }


def _thinking(settings: ModelSettings, form: ReasoningForm) -> dict[str, Any] | None:
    match settings.reasoning:
        case None:
            return None
        case int() as budget:
            return {"thinking_budget": budget}
        case effort if form == "level":
            return {"thinking_level": effort.upper()}
        case effort:
            return {"thinking_budget": _BUDGETS[effort]}


def _tools(request: LlmRequest, names: ToolNames) -> dict[str, Any] | None:
    choice = tool_choice(request, names)
    if choice is None:
        return None
    only = {"allowed_function_names": [choice.name]} if choice.name else {}
    return {"function_calling_config": {"mode": _MODES[choice.kind], **only}}
