"""Finish reasons: the meaning of each provider's finish reasons, in one table.

A test compares it with the enums of the installed SDKs. An unknown reason raises `LlmResponseError`; only on
other servers with OpenAI's chat API, which have reasons of their own, does it mean "stop".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from wesichain.core import LlmResponse, ToolCall
from wesichain.core.internal import FinishReason, replace
from wesichain.errors import LlmResponseError
from wesichain.llm.transport.faults import Endpoint

# "malformed": the provider could not parse the call that the model wrote.
Ending: TypeAlias = FinishReason | Literal["malformed"]

CHAT: Mapping[str, Ending] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    # of Mistral, DeepSeek, OpenRouter and other servers with this API
    "max_tokens": "length",
    "model_length": "length",  # the context window is full
    "refusal": "refusal",
    "error": "error",
    "insufficient_system_resource": "error",
}
RESPONSES: Mapping[str, Ending] = {  # the status of a response
    "completed": "stop",
    "complete": "stop",  # of other servers with this API
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
    "in_progress": "error",  # of a background response
    "queued": "error",
}
INCOMPLETE_RESPONSES: Mapping[str, Ending] = {  # why a response is incomplete
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content_filter",
    "steered": "error",  # another input replaced it
}
ANTHROPIC: Mapping[str, Ending] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",  # a tool of the provider is still running: the same messages are sent again
    "compaction": "pause",  # the context was shortened: the same messages are sent again
}
GEMINI: Mapping[str, Ending] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
    "MALFORMED_RESPONSE": "error",
    "NO_IMAGE": "error",
    "IMAGE_OTHER": "error",
    "OTHER": "error",
    "FINISH_REASON_UNSPECIFIED": "error",
    "CONTINUATION": "pause",
}
CONVERSE: Mapping[str, Ending] = {  # Bedrock
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_tool_use": "malformed",
    "malformed_model_output": "error",
}


def ending_of(word: object, table: Mapping[str, Ending], endpoint: Endpoint) -> Ending:
    """The meaning of a finish reason; an unknown one raises `LlmResponseError`."""
    ending = table.get(str(word))
    if ending is None:
        raise LlmResponseError(
            f"{endpoint.host} ended its reply with {endpoint.line(str(word))[:80]!r}, a reason that this "
            f"version does not know; update wesichain, or use another model"
        )
    return ending


def with_ending(response: LlmResponse, ending: Ending, *, word: str, why: str = "") -> LlmResponse:
    """The response with its finish reason. A malformed call has no name, so that the runtime rejects it.

    `why` is the provider's explanation.
    """
    if ending != "malformed":
        return replace(response, finish_reason=ending)
    said = f": {why}" if why else ""
    reason = (
        f"The provider could not read your tool call ({word}{said}). Call one of the offered tools, with its "
        f"name and its arguments as one JSON object, or give the answer."
    )
    call = ToolCall("", "", why or response.content)
    return replace(response, tool_calls=(call,), finish_reason="tool_calls", reasoning=reason)
