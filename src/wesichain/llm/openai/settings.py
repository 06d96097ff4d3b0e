"""Model settings as fields of OpenAI's two APIs, and of servers with a compatible one. Pure."""

from __future__ import annotations

from typing import Any

from wesichain.core import LlmRequest, ModelSettings
from wesichain.llm.calls import ToolChoice, ToolNames, stops_of, tool_choice

# The providers with the newer name for the token limit, which includes reasoning.
_COMPLETION_TOKENS = ("openai", "groq")


def chat_settings(request: LlmRequest, names: ToolNames, *, provider: str) -> dict[str, Any]:
    """The fields of a chat completion for the settings of a request; None for those that are not set."""
    settings = request.settings
    limit = "max_completion_tokens" if provider in _COMPLETION_TOKENS else "max_tokens"
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        limit: settings.max_tokens,
        "random_seed" if provider == "mistral" else "seed": settings.seed,
        "stop": stops_of(request) or None,
        **_effort(settings, provider),
        "tool_choice": _chat_choice(tool_choice(request, names), provider),
        "parallel_tool_calls": settings.parallel_tool_calls if request.tools else None,
        "service_tier": settings.service_tier,
        **_cache(settings),
    }


def response_settings(request: LlmRequest, names: ToolNames) -> dict[str, Any]:
    """The fields of the Responses API for the settings of a request; None for those that are not set."""
    settings = request.settings
    effort = "none" if settings.reasoning == "off" else settings.reasoning
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens,
        "reasoning": None if effort is None else {"effort": effort},
        "tool_choice": _response_choice(tool_choice(request, names)),
        "parallel_tool_calls": settings.parallel_tool_calls if request.tools else None,
        "service_tier": settings.service_tier,
        **_cache(settings),
    }


def _effort(settings: ModelSettings, provider: str) -> dict[str, Any]:
    effort = "none" if settings.reasoning == "off" else settings.reasoning
    if provider != "openrouter" or effort is None:
        return {"reasoning_effort": effort}
    return {"reasoning": {"max_tokens": effort} if isinstance(effort, int) else {"effort": effort}}


def _chat_choice(choice: ToolChoice | None, provider: str) -> Any:
    if choice is None or choice.kind in ("auto", "none"):
        return choice and choice.kind
    if choice.kind == "required":
        return "any" if provider == "mistral" else "required"
    return {"type": "function", "function": {"name": choice.name}}


def _response_choice(choice: ToolChoice | None) -> Any:
    if choice is None or choice.kind != "tool":
        return choice and choice.kind
    return {"type": "function", "name": choice.name}


def _cache(settings: ModelSettings) -> dict[str, Any]:
    """The provider caches by itself; without its implicit breakpoint, nothing is cached."""
    return {"prompt_cache_options": {"mode": "explicit"}} if settings.cache == "off" else {}
