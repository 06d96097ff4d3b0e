"""The wires of the providers, as their servers write them, for the contract suite."""

from __future__ import annotations

import asyncio
import binascii
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.llm.toxic_server import Answer as Sent
from tests.llm.toxic_server import Received, ToxicServer, chunked, head
from wesichain.core import ToolCall, Usage
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.testing import Answer, ProviderReply

Plain = dict[str, Any]


class Loopback:
    """A server on a real socket; wires add how they write."""

    def __init__(self, server: ToxicServer) -> None:
        self._server = server
        self.url = server.url

    @property
    def requests(self) -> list[tuple[str, Mapping[str, str], bytes]]:
        return [(one.path, one.headers, one.body) for one in self._server.received]


def _sent(answer: Answer) -> Sent:
    async def write(writer: asyncio.StreamWriter) -> None:
        body = answer.body if answer.cut is None else answer.body[: answer.cut]
        writer.write(head(answer.status, answer.headers) + chunked(body, 64))
        await writer.drain()
        if answer.cut is None:
            writer.write(b"0\r\n\r\n")
        else:
            writer.transport.abort() if not writer.can_write_eof() else writer.close()

    return write


class _Wire:
    @asynccontextmanager
    async def serve(self, *answers: Answer) -> AsyncIterator[Loopback]:
        async with ToxicServer(*map(_sent, answers)) as server:
            yield Loopback(server)

    def refuse(self, status: int, words: str) -> bytes:
        return json.dumps({"error": {"message": words, "type": "made_up"}}).encode()


def _sse(*events: Plain | str) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def wire_name(call: ToolCall) -> str:
    return call.name.replace(".", "_")


class ChatWire(_Wire):
    """Chat completions."""

    def client(self, url: str, **settings: Any) -> OpenAiClient:
        return OpenAiClient("gpt-x", base_url=f"{url}/v1", **settings)

    def _usage(self, usage: Usage) -> Plain:
        return {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": wire_name(call), "arguments": json.dumps(call.args)},
            }
            for call in reply.calls
        ]
        refusal = reply.finish == "refusal"
        finish = reply.reason or ("stop" if refusal else reply.finish)
        if not stream:
            message: Plain = {"role": "assistant", "content": None if refusal else reply.text}
            message |= {"refusal": reply.text} if refusal else {}
            message |= {"tool_calls": calls} if calls else {}
            message |= {"reasoning_content": reply.signature} if reply.signature else {}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return json.dumps({"choices": [choice], "usage": self._usage(reply.usage)}).encode()
        deltas: list[Plain] = [{"refusal" if refusal else "content": half} for half in _halves(reply.text)]
        deltas += [{"reasoning_content": reply.signature}] if reply.signature else []
        for index, call in enumerate(calls):
            first, second = _halves(call["function"]["arguments"])  # type: ignore[index]  # made above
            named = {"name": call["function"]["name"], "arguments": first}  # type: ignore[index]  # likewise
            deltas.append({"tool_calls": [{**call, "index": index, "function": named}]})
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        return _sse(*chunks, end, {"choices": [], "usage": self._usage(reply.usage)}, "[DONE]")


class ResponsesWire(_Wire):
    """The Responses API."""

    def client(self, url: str, **settings: Any) -> ResponsesClient:
        return ResponsesClient("gpt-5-x", base_url=f"{url}/v1", **settings)

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        output: list[Plain] = []
        if reply.thought or reply.signature:
            thought = {"summary": [{"type": "summary_text", "text": reply.thought}]}
            output.append(
                {"type": "reasoning", "id": "rs_1", "encrypted_content": reply.signature, **thought}
            )
        if reply.text:
            kind = {"type": "refusal", "refusal": reply.text}
            said = kind if reply.finish == "refusal" else {"type": "output_text", "text": reply.text}
            output.append({"type": "message", "id": "msg_1", "role": "assistant", "content": [said]})
        for call in reply.calls:
            named = {"name": wire_name(call), "arguments": json.dumps(call.args)}
            output.append({"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, **named})
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        is_cut = reply.finish in reasons
        whole: Plain = {
            "object": "response",
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": reply.reason or reasons[reply.finish]} if is_cut else None,
            "output": output,
            "usage": {
                "input_tokens": reply.usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": reply.usage.cache_read_tokens,
                    "cache_write_tokens": reply.usage.cache_write_tokens,
                },
                "output_tokens": reply.usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning_tokens},
            },
        }
        if not stream:
            return json.dumps(whole).encode()
        events: list[Plain] = [{"type": "response.created", "response": {**whole, "output": []}}]
        for index, item in enumerate(output):
            at = {"output_index": index}
            events.append({"type": "response.output_item.added", "item": {**item, "arguments": ""}, **at})
            if item["type"] == "message" and reply.finish != "refusal":
                events += [
                    {"type": "response.output_text.delta", "delta": half, **at}
                    for half in _halves(reply.text)
                ]
            if item["type"] == "function_call":
                events += [
                    {"type": "response.function_call_arguments.delta", "delta": half, **at}
                    for half in _halves(item["arguments"])
                ]
            events.append({"type": "response.output_item.done", "item": item, **at})
        events.append({"type": f"response.{whole['status']}", "response": whole})
        return _sse(*events)


class MessagesWire(_Wire):
    """The messages API."""

    def client(self, url: str, **settings: Any) -> AnthropicClient:
        return AnthropicClient("claude-x", base_url=url, **settings)

    def _blocks(self, reply: ProviderReply) -> list[Plain]:
        thought = {"type": "thinking", "thinking": reply.thought, "signature": reply.signature}
        blocks: list[Plain] = [thought] if reply.signature else []
        blocks += [{"type": "text", "text": reply.text}] if reply.text else []
        return blocks + [
            {"type": "tool_use", "id": call.id, "name": wire_name(call), "input": call.args}
            for call in reply.calls
        ]

    def _stop(self, reply: ProviderReply) -> str:
        words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "pause": "pause_turn"}
        return reply.reason or words.get(reply.finish, reply.finish)

    def _usage(self, usage: Usage) -> Plain:
        return {
            "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
        }

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        if stream:
            return b"".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                for event in self.events(reply)
            )
        stop = self._stop(reply)
        body = {"type": "message", "content": self._blocks(reply), "stop_reason": stop}
        return json.dumps({**body, "usage": self._usage(reply.usage)}).encode()

    def events(self, reply: ProviderReply) -> list[Plain]:
        usage = self._usage(reply.usage)
        events: list[Plain] = [{"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}}]
        for index, block in enumerate(self._blocks(reply)):
            deltas: list[Plain]
            if block["type"] == "text":
                empty = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
            elif block["type"] == "thinking":
                empty = {**block, "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            else:
                empty = {**block, "input": {}}
                written = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in _halves(written)]
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        end = {"stop_reason": self._stop(reply)}
        events.append(
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}}
        )
        return [*events, {"type": "message_stop"}]


def frame(payload: bytes, headers: Mapping[str, str]) -> bytes:
    """A frame of an AWS event stream."""
    fields = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in headers.items()
    )
    prelude = (16 + len(fields) + len(payload)).to_bytes(4, "big") + len(fields).to_bytes(4, "big")
    body = prelude + binascii.crc32(prelude).to_bytes(4, "big") + fields + payload
    return body + binascii.crc32(body).to_bytes(4, "big")


class BedrockWire(_Wire):
    """Converse on Bedrock: JSON, or frames where it is streamed."""

    def client(self, url: str, **settings: Any) -> BedrockClient:
        return BedrockClient("anthropic.claude-x-v1:0", base_url=url, **settings)

    def _usage(self, usage: Usage) -> Plain:
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return {
            "inputTokens": fresh,
            "outputTokens": usage.output_tokens,
            "totalTokens": usage.total_tokens,
            "cacheReadInputTokens": usage.cache_read_tokens,
            "cacheWriteInputTokens": usage.cache_write_tokens,
        }

    def _stop(self, reply: ProviderReply) -> str:
        words = {"length": "max_tokens", "content_filter": "content_filtered", "tool_calls": "tool_use"}
        return reply.reason or words.get(reply.finish, "end_turn")

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        if stream:
            return b"".join(converse_frame(name, event) for name, event in self.events(reply))
        blocks: list[Plain] = []
        if reply.thought or reply.signature:
            blocks.append(
                {"reasoningContent": {"reasoningText": {"text": reply.thought, "signature": reply.signature}}}
            )
        blocks += [{"text": reply.text}] if reply.text else []
        blocks += [
            {"toolUse": {"toolUseId": call.id, "name": wire_name(call), "input": call.args}}
            for call in reply.calls
        ]
        message = {"role": "assistant", "content": blocks}
        body = {
            "output": {"message": message},
            "stopReason": self._stop(reply),
            "usage": self._usage(reply.usage),
        }
        return json.dumps(body).encode()

    def events(self, reply: ProviderReply) -> list[tuple[str, Plain]]:
        events: list[tuple[str, Plain]] = [("messageStart", {"role": "assistant"})]
        deltas: list[tuple[Plain | None, list[Plain]]] = []
        if reply.thought or reply.signature:
            thoughts = [{"text": half} for half in _halves(reply.thought)] + [{"signature": reply.signature}]
            deltas.append((None, [{"reasoningContent": thought} for thought in thoughts]))
        if reply.text:
            deltas.append((None, [{"text": half} for half in _halves(reply.text)]))
        for call in reply.calls:
            pieces = [{"toolUse": {"input": half}} for half in _halves(json.dumps(call.args))]
            deltas.append(({"toolUse": {"toolUseId": call.id, "name": wire_name(call)}}, pieces))
        for index, (start, pieces) in enumerate(deltas):
            if start is not None:
                events.append(("contentBlockStart", {"start": start, "contentBlockIndex": index}))
            events += [
                ("contentBlockDelta", {"delta": piece, "contentBlockIndex": index}) for piece in pieces
            ]
            events.append(("contentBlockStop", {"contentBlockIndex": index}))
        events.append(("messageStop", {"stopReason": self._stop(reply)}))
        return [*events, ("metadata", {"usage": self._usage(reply.usage), "metrics": {"latencyMs": 1}})]

    def refuse(self, status: int, words: str) -> bytes:
        return json.dumps({"message": words}).encode()


def converse_frame(name: str, event: Plain) -> bytes:
    """An event of a streamed reply of Converse."""
    kinds = {":event-type": name, ":message-type": "event", ":content-type": "application/json"}
    return frame(json.dumps(event).encode(), kinds)


class GeminiWire(_Wire):
    """Gemini."""

    def client(self, url: str, **settings: Any) -> GoogleClient:
        return GoogleClient("gemini-x", base_url=url, **settings)

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        parts: list[Plain] = [{"text": reply.thought, "thought": True}] if reply.thought else []
        texts = list(filter(None, _halves(reply.text))) if stream else [reply.text] * bool(reply.text)
        parts += [{"text": text} for text in texts]
        for index, call in enumerate(reply.calls):
            signed = {"thoughtSignature": reply.signature} if reply.signature and not index else {}
            parts.append({"functionCall": {"name": wire_name(call), "args": call.args}, **signed})
        words = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
        finish = reply.reason or words.get(reply.finish, "STOP")
        usage = {
            "promptTokenCount": reply.usage.input_tokens,
            "cachedContentTokenCount": reply.usage.cache_read_tokens,
            "candidatesTokenCount": reply.usage.output_tokens - reply.usage.reasoning_tokens,
            "thoughtsTokenCount": reply.usage.reasoning_tokens,
        }
        if not stream:
            content = {"role": "model", "parts": parts}
            body = {"candidates": [{"content": content, "finishReason": finish}], "usageMetadata": usage}
            return json.dumps(body).encode()
        chunks: list[Plain] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts
        ]
        chunks.append({"candidates": [{"finishReason": finish}], "usageMetadata": usage})
        return _sse(*chunks)

    def refuse(self, status: int, words: str) -> bytes:
        return json.dumps({"error": {"code": status, "message": words, "status": "MADE_UP"}}).encode()


__all__ = [
    "BedrockWire",
    "ChatWire",
    "GeminiWire",
    "MessagesWire",
    "Received",
    "ResponsesWire",
    "converse_frame",
    "frame",
]
