"""What the tests of the edge share: scripted agents, a real server on the loopback, a reader of streams."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import httpx2
import uvicorn
from typing_extensions import override

from wesichain import Agent, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.core import TextChunk, Usage
from wesichain.llm import StreamingLlm, StreamItem
from wesichain.testing import FunctionLlm


@tool(effect="pure")
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool(approval=True)
async def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


@tool(external=True)
async def locate() -> str:
    """Where the user is."""
    return ""


def say(*calls: ToolCall, text: str = "") -> LlmResponse:
    return LlmResponse(text, tool_calls=calls, usage=Usage(10, 5))


class Talker(FunctionLlm, StreamingLlm):
    """Answers with what a function makes of the request, in pieces of three characters."""

    @override
    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]:
        response = await self.complete(request)
        for start in range(0, len(response.content), 3):
            yield TextChunk(response.content[start : start + 3])
        yield response


def scripted(*replies: Any, **options: Any) -> Agent[Any, Any]:
    """An agent that plays the replies to every run of its own: the next is chosen by the messages so far."""

    def reply(request: LlmRequest) -> LlmResponse:
        since = [message.role for message in request.messages]
        turn = len(since) - 1 - since[::-1].index(Role.USER)
        done = sum(role is Role.ASSISTANT for role in since[turn:])
        answer = replies[min(done, len(replies) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return LlmResponse(answer, usage=Usage(10, 5)) if isinstance(answer, str) else answer

    given: dict[str, Any] = {"tools": [weather, refund, locate], **options}
    return Agent(Talker(reply), **given)


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A real server of the app on the loopback, and a client of it, which reads no certificates: that takes 60 ms."""
    async with (
        listening(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=30, verify=False, **options) as client,
    ):
        yield client


@asynccontextmanager
async def listening(app: Any, buffer: int | None = None) -> AsyncIterator[str]:
    """A real server on the loopback; `buffer`: how many bytes its system holds for a reader that takes nothing."""
    listener = socket.socket()
    if buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


def _no_signals() -> Any:
    """In place of a server's handlers of signals: the tests keep theirs."""
    return nullcontext()


class Frame:
    """One server-sent event."""

    def __init__(self, id: int | None, data: Any) -> None:
        self.id, self.data = id, data

    def __repr__(self) -> str:
        return f"Frame({self.id}, {self.data})"


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """The frames of a stream; comments are skipped."""
    number: int | None = None
    data: list[str] = []
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line and data:
            text = "\n".join(data)
            yield Frame(number, text if text == "[DONE]" else json.loads(text))
            number, data = None, []


async def read(
    client: httpx2.AsyncClient,
    method: str,
    path: str,
    *,
    after: int | None = None,
    most: int | None = None,
    **options: Any,
) -> list[Frame]:
    """Read a stream to its end, or cut it after `most` frames."""
    headers = {**options.pop("headers", {})}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    found: list[Frame] = []
    async with client.stream(method, path, headers=headers, **options) as response:
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(f"{response.status_code}: {response.text}")
        if most == 0:
            return found
        async for frame in frames(response):
            found.append(frame)
            if most is not None and len(found) >= most:
                break
    return found
