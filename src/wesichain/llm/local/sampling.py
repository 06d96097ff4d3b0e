"""Model settings as llama.cpp's server writes them: sampling, and the tools that a reply may call. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wesichain.core import LlmRequest, ModelSettings
from wesichain.llm.calls import ToolNames, tool_choice


def sampling_of(settings: ModelSettings) -> dict[str, Any]:
    """The fields of a completion for the settings that are given."""
    written: Mapping[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "n_predict": settings.max_tokens,
        "seed": settings.seed,
        "cache_prompt": False if settings.cache == "off" else None,
    }
    return {name: value for name, value in written.items() if value is not None} | dict(settings.extra)


def chosen(request: LlmRequest) -> tuple[LlmRequest, bool]:
    """The request with the tools that its settings leave to choose from, and whether one has to be called."""
    choice = tool_choice(request, ToolNames.of(request))
    if choice is None or choice.kind == "auto":
        return request, False
    if choice.kind == "none":
        return replace(request, tools=()), False
    if choice.kind == "required":
        return request, True
    named = tuple(tool for tool in request.tools if tool.name == request.settings.tool_choice)
    return replace(request, tools=named), True
