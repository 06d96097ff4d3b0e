"""Attributes of spans by the conventions for generative AI: the messages, the usage, the provider."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from wesichain.core import LlmResponse, Message, Role, Text, ToolSpec, Usage, to_json
from wesichain.core.internal import HandedOff, dump_json

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# Of each provider our name, that of the conventions, its host, and how the names of its models begin.
_KNOWN = (
    ("openai", "openai", "openai.com", ("gpt-", "o1", "o3", "o4")),
    ("responses", "openai", "", ()),
    ("azure", "azure.ai.openai", "azure.com", ()),
    ("anthropic", "anthropic", "anthropic.com", ("claude",)),
    ("google", "gcp.gemini", "googleapis.com", ("gemini",)),
    ("vertex", "gcp.vertex_ai", "", ()),
    ("bedrock", "aws.bedrock", "amazonaws.com", ()),
    ("mistral", "mistral_ai", "mistral.ai", ("mistral",)),
    ("groq", "groq", "groq.com", ()),
    ("deepseek", "deepseek", "deepseek.com", ("deepseek",)),
    ("xai", "x_ai", "x.ai", ("grok",)),
    ("cohere", "cohere", "cohere.com", ("command-",)),
    ("perplexity", "perplexity", "perplexity.ai", ()),
    ("local", "llama.cpp", "", ()),
    ("", "openrouter", "openrouter.ai", ()),
)
_UNNAMED = "agent"
_PROVIDERS = {ours: name for ours, name, _, _ in _KNOWN if ours}
_HOSTS = {host: name for _, name, host, _ in _KNOWN if host}
_MODELS = {start: name for _, name, _, starts in _KNOWN for start in starts}


def wants_content(content: bool | None) -> bool:
    return os.environ.get(CAPTURE, "").lower() == "true" if content is None else content


def provider_of_model(model: str) -> str:
    """The provider of a model that is known by its name alone: `openai:gpt-5`, `claude-...`."""
    prefix, colon, _ = model.partition(":")
    if colon:
        return _PROVIDERS.get(prefix, prefix)
    return next((name for start, name in _MODELS.items() if model.startswith(start)), "unknown")


def provider_of(llm: object, model: str) -> str:
    """The provider of a client: as it says itself, by its address, or else by the model's name."""
    said: Any = getattr(llm, "provider", None)
    if isinstance(said, str) and said:
        return _PROVIDERS.get(said, said)
    inner = getattr(llm, "llm", None) or next(iter(getattr(llm, "models", ())), None)  # around another
    if inner is not None:
        return provider_of(inner, model)
    address = urlsplit(str(getattr(llm, "base_url", None) or getattr(llm, "_base_url", None) or ""))
    host = address.hostname or ""
    for end, name in _HOSTS.items():
        if host == end or host.endswith(f".{end}"):
            return name
    if address.port == 11434:
        return "ollama"
    known = provider_of_model(model)
    return known if known != "unknown" else host or type(llm).__module__.partition(".")[0]


def agent_name(name: str) -> str:
    """The name of an agent, "" of one that was given none."""
    return "" if name == _UNNAMED else name


def model_name(model: str) -> str:
    prefix, colon, name = model.partition(":")
    return name if colon and prefix in _PROVIDERS else model


def usage_of(usage: Usage) -> dict[str, int]:
    """Tokens; those of a cache and of reasoning where a provider told them."""
    told = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    told |= {
        name: count
        for name, count in (
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
            ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
            ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
        )
        if count
    }
    return told


def messages_of(messages: Sequence[Message]) -> str:
    return dump_json([{"role": message.role.value, "parts": _parts(message)} for message in messages])


def reply_of(reply: LlmResponse) -> str:
    parts = _parts(Message(Role.ASSISTANT, reply.content, None, reply.tool_calls, reply.reasoning))
    return dump_json([{"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}])


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        return [
            {"type": "tool_call_response", "id": message.tool_call_id, "response": message.text},
            *_media(message),
        ]
    parts: list[dict[str, Any]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.text:
        parts.append({"type": "text", "content": message.text})
    parts += _media(message)
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
        for call in message.tool_calls
    ]
    return parts


def _media(message: Message) -> list[dict[str, Any]]:
    """Pictures, documents and sounds: what they are and their hash or address, never their bytes."""
    if isinstance(message.content, str):
        return []
    return [
        {"type": "uri", "modality": part.kind, "mime_type": part.media_type,
         "uri": f"sha256:{part.digest}" if part.digest else part.url}
        for part in message.content
        if not isinstance(part, Text)
    ]  # fmt: skip


def definitions_of(tools: Sequence[ToolSpec]) -> str:
    return to_json(
        [
            {
                "type": "function",
                "name": spec.name,
                "description": spec.description,
                "parameters": dict(spec.parameters),
            }
            for spec in tools
        ]
    )


def handoff_of(event: HandedOff) -> dict[str, str]:
    """Who handed the run to whom, as the attributes of an event in its span."""
    return {
        "wesichain.handoff.source": event.source,
        "gen_ai.agent.name": event.target,
        "gen_ai.request.model": model_name(event.model),
    }
