"""Model settings as Converse writes them: its own fields, and those of the model behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import LlmRequest
from wesichain.llm.calls import ToolNames, stops_of, tool_choice
from wesichain.llm.claude_reasoning import reply_limit, thinking_of
from wesichain.llm.supported_settings import SupportedSettings

_REPLY = 4096  # tokens of an answer beside a budget of thoughts


def converse_settings(
    request: LlmRequest, names: ToolNames, support: SupportedSettings, body: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields for the settings of a request; None of those that are not set."""
    settings = request.settings
    own, limit = _reasoning(request, support)
    inference = {
        "maxTokens": limit,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": stops_of(request) or None,
    }
    given = {name: value for name, value in inference.items() if value is not None}
    return {
        "inferenceConfig": given or None,
        "toolConfig": _tools(request, names, body),
        "additionalModelRequestFields": own or None,
        "serviceTier": None if settings.service_tier is None else {"type": settings.service_tier},
    }


def _reasoning(request: LlmRequest, support: SupportedSettings) -> tuple[dict[str, Any], int | None]:
    """The model's own fields for its reasoning, and the limit on its reply."""
    settings = request.settings
    effort, form = settings.reasoning, support.reasoning
    if effort is None or form in ("effort", "nova"):
        return _open_model(effort, form), settings.max_tokens
    thinking, level = thinking_of(settings, form)
    own = {"thinking": thinking} | ({} if level is None else {"output_config": {"effort": level}})
    return own, reply_limit(settings, thinking, default=_REPLY)


def _open_model(effort: object, form: str) -> dict[str, Any]:
    if effort is None:
        return {}
    if form == "effort":
        return {"reasoning_effort": effort}
    kind = {"type": "disabled"} if effort == "off" else {"type": "enabled", "maxReasoningEffort": effort}
    return {"reasoningConfig": kind}


def _tools(request: LlmRequest, names: ToolNames, body: Mapping[str, Any]) -> dict[str, Any] | None:
    choice = tool_choice(request, names)
    if choice is None or "toolConfig" not in body:
        return None
    if choice.kind == "tool":
        return {"toolChoice": {"tool": {"name": choice.name}}}
    return {"toolChoice": {"any" if choice.kind == "required" else "auto": {}}}
