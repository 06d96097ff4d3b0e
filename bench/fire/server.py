"""A chat completions server on loopback that misbehaves, and counts its requests."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any

from . import text_dialect
from .faults import GAVE_UP, GOOD, Fault


class MisbehavingServer:
    """`async with MisbehavingServer(fault) as server`: `server.url`, and then `server.requests`.

    Below the path /calm it behaves well and does not count.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.requests = 0
        self.began = self.latest = math.inf  # when the first request came, and the last one
        self.url = ""
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def __aenter__(self) -> MisbehavingServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        served = [task for task in self._connections.values() if task]
        for writer in self._connections:
            writer.close()
        await asyncio.gather(*served, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            while request := await _read_request(reader):
                path, body = request
                if path.startswith("/calm"):
                    writer.write(_reply(json.loads(body), _say(json.loads(body), GOOD)))
                else:
                    self.requests += 1
                    self.latest = time.monotonic()
                    self.began = min(self.began, self.latest)
                    writer.write(self.respond(json.loads(body)))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as clients do
        finally:
            del self._connections[writer]
            writer.close()

    def respond(self, request: dict[str, Any]) -> bytes:
        """The whole HTTP response to the request with this body."""
        trouble = self.fault.forever or self.requests == 1
        if trouble and self.fault.status != 200:
            error = {"error": {"message": "trouble", "type": "server_error", "code": None}}
            return _http(self.fault.status, "application/json", json.dumps(error), "retry-after: 1\r\n")
        message = self._call(request) if trouble else _say(request, GOOD)
        if trouble and not _may_call(request):
            message = _say(request, GAVE_UP)
        return _reply(request, message)

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        prompt = _last_text(request)
        arguments = self.fault.arguments.replace("$n", str(self.requests))
        if text_dialect.asks_for_call(prompt):
            return _text(text_dialect.call(prompt, self.fault.tool, arguments))
        return _tool_call(f"call_{self.requests}", self.fault.tool, arguments)


def _say(request: dict[str, Any], text: str) -> dict[str, Any]:
    """The text as an answer, in the way this client takes answers."""
    prompt = _last_text(request)
    if text_dialect.asks_for_call(prompt):
        return _text(text_dialect.call(prompt, "finish", "{}"))
    if text_dialect.asks_for_answer(prompt):
        return _text(text_dialect.answer(prompt, text))
    if "final_answer" in {tool["function"]["name"] for tool in request.get("tools") or ()}:
        return _tool_call("call_final", "final_answer", json.dumps({"answer": text}))
    return _text(text)


def _may_call(request: dict[str, Any]) -> bool:
    offered = bool(request.get("tools")) and request.get("tool_choice") != "none"
    return offered or text_dialect.asks_for_call(_last_text(request))


def _last_text(request: dict[str, Any]) -> str:
    content = request["messages"][-1].get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _text(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def _tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
ABOUT = {"id": "chatcmpl-1", "created": 1700000000, "model": "stub"}


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": _reason(message)}
    return ABOUT | {"object": "chat.completion", "choices": [choice], "usage": USAGE}


def _events(message: dict[str, Any]) -> str:
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    delta = {"role": "assistant", "content": message.get("content")} | (
        {"tool_calls": calls} if calls else {}
    )
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": _reason(message)}]},
        {"choices": [], "usage": USAGE},
    ]
    lines = [json.dumps(ABOUT | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])


def _reason(message: dict[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    """Path and body of the next request, or None at the end of the connection."""
    head = ""
    while not head.endswith("\r\n\r\n"):
        line = await reader.readline()
        if not line:
            return None
        head += line.decode("latin-1")
    path = head.split(" ")[1]
    for field in head.split("\r\n"):
        name, _, value = field.partition(":")
        if name.lower() == "content-length":
            return path, await reader.readexactly(int(value))
    return path, b"{}"


def _reply(request: dict[str, Any], message: dict[str, Any]) -> bytes:
    if request.get("stream"):
        return _http(200, "text/event-stream", _events(message))
    return _http(200, "application/json", json.dumps(_completion(message)))


def _http(status: int, kind: str, body: str, extra: str = "") -> bytes:
    content = body.encode()
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n"
    return f"{head}{extra}\r\n".encode() + content
