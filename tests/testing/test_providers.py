"""The contract of providers: what its laws ask of a client, and a broken client for each law, which it refuses.

What is asked is in `laws/providers.txt` (see `tests/expected.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Any

import pytest

from tests import expected
from tests.llm.test_providers import TestAnthropic as Messages
from tests.llm.test_providers import TestChatCompletions as Sound
from tests.llm.wires import ChatWire, MessagesWire
from tests.testing.test_store_contract import LAWS, laws_of
from wesichain.core import LlmResponse, TextChunk, ToolCallChunk, Usage
from wesichain.errors import LlmError, LlmResponseError
from wesichain.testing import Answer, ProviderReply


class NotedWire(ChatWire):
    """Writes down what it is asked for, and the requests that its servers were sent."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def client(self, url: str, **settings: Any) -> Any:
        self.said.append(
            f"client { ({**settings, 'api_key': 'a key'} if 'api_key' in settings else settings) }"
        )
        made: Any = super().client(url, **settings)
        close = made.aclose

        async def aclose() -> None:
            self.said.append("closed")
            await close()

        made.aclose = aclose
        return made

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        values = {one.name: getattr(reply, one.name) for one in fields(reply)}
        changed = {name: value for name, value in values.items() if value != getattr(ProviderReply(), name)}
        self.said.append(f"write {changed}{' in pieces' if stream else ''}")
        return super().write(reply, stream=stream)

    def refuse(self, status: int, words: str) -> bytes:
        self.said.append(f"refuse {status} {words}")
        return super().refuse(status, words)

    @asynccontextmanager
    async def serve(self, *answers: Answer) -> AsyncIterator[Any]:
        self.said += [f"answer {one.status} {dict(one.headers)} {_cut(one)}".rstrip() for one in answers]
        async with super().serve(*answers) as server:
            yield server
            self.said += [f"asked {_messages(body)}" for _, _, body in server.requests]


def _messages(body: bytes) -> str:
    """The request without its tools, which are those of the suite."""
    plain = json.loads(body)
    plain["tools"] = [one.get("function", one).get("name", one) for one in plain["tools"]]
    return json.dumps(plain)


def _cut(answer: Answer) -> str:
    return "" if answer.cut is None else f"cut at {answer.cut} of {len(answer.body)}"


def asked() -> list[str]:
    wire, lines = NotedWire(), list[str]()
    suite = type("Suite", (Sound,), {"wire": wire})()
    for law in laws_of(suite):
        wire.said.clear()
        getattr(suite, law)()
        lines += [law, *[f"    {line}" for line in wire.said]]
    return lines


def test_the_laws_ask_what_is_written() -> None:
    expected.check(LAWS / "providers.txt", asked())


# --- broken clients ---------------------------------------------------------------------------------------


class Broken:
    """A client whose replies, pieces or errors are changed."""

    def __init__(self, inner: Any, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._change = change
        self.traits = inner.traits

    async def complete(self, request: Any) -> Any:
        try:
            return self._change(await self._inner.complete(request))
        except LlmError as error:
            return _raised(self._change(error))

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        try:
            async for item in self._inner.stream(request):
                changed = self._change(item)
                if changed is not None:
                    yield changed
        except LlmError as error:
            yield _raised(self._change(error))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _raised(changed: Any) -> Any:
    if isinstance(changed, BaseException):
        raise changed
    return changed


def of_reply(**fields: Any) -> Callable[[Any], Any]:
    """Changes fields of every reply; a function is given the reply."""

    def change(item: Any) -> Any:
        if not isinstance(item, LlmResponse):
            return item
        return replace(
            item, **{name: made(item) if callable(made) else made for name, made in fields.items()}
        )

    return change


def without(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda item: None if isinstance(item, kind) else item


def of_error(made: Any) -> Callable[[Any], Any]:
    return lambda item: made if isinstance(item, LlmError) else item


BROKEN: list[tuple[str, Callable[[Any], Any]]] = [
    ("a_text_and_all_that_it_cost", of_reply(usage=lambda _: Usage(100, 20))),
    ("a_text_and_all_that_it_cost", of_reply(content=lambda reply: reply.content.upper())),
    ("parallel_calls", of_reply(tool_calls=lambda reply: reply.tool_calls[:1])),
    ("parallel_calls", of_reply(finish_reason="stop")),
    ("pieces_add_up", without(TextChunk)),
    ("pieces_add_up", without(ToolCallChunk)),
    ("did_not_end_says_so", of_reply(finish_reason="stop")),
    ("a_full_context_window", of_reply(finish_reason="stop")),
    ("an_ending_that_nobody_knows", of_reply(finish_reason="length")),
    ("left_in_the_text", of_reply(reasoning="")),
    ("left_in_the_text", of_reply(content=lambda reply: f"<think>x</think>{reply.content}")),
    ("a_call_in_the_text", of_reply(content="")),
    ("thoughts_go_back", of_reply(opaque=None)),
    ("a_picture_is_sent", of_reply(omitted=("a picture",))),
    ("what_cannot_be_sent", of_reply(omitted=("something",))),
    ("a_busy_provider", of_error(LlmResponseError("busy"))),
    ("a_broken_provider", of_error(LlmResponseError("broken", retryable=False))),
    ("a_refused_request", of_error(LlmResponseError("this is no good", retryable=True))),
    ("a_reply_that_is_cut", of_error(LlmResponse("hello"))),
    ("survived_by_asking_again", of_reply(content="")),
]


@pytest.mark.parametrize(("law", "change"), BROKEN)
def test_a_broken_client_is_refused(law: str, change: Callable[[Any], Any]) -> None:
    class Wire(ChatWire):
        def client(self, url: str, **settings: Any) -> Any:
            return Broken(super().client(url, **settings), change)

    suite = type("Suite", (Sound,), {"wire": Wire()})()
    (name,) = (name for name in laws_of(suite) if law in name)
    with pytest.raises((AssertionError, IndexError)):
        getattr(suite, name)()


def test_an_ending_that_nobody_knows_is_an_error_of_a_stream_too() -> None:
    class Streams(Broken):
        async def complete(self, request: Any) -> Any:
            return await self._inner.complete(request)

    class Wire(MessagesWire):
        def client(self, url: str, **settings: Any) -> Any:
            return Streams(super().client(url, **settings), of_error(LlmResponse("Done.")))

    suite: Any = type("Suite", (Messages,), {"wire": Wire()})()
    with pytest.raises(AssertionError):
        suite.test_an_ending_that_nobody_knows_is_an_error_that_names_it()


def test_a_wire_says_how_a_full_context_window_is_called() -> None:
    suite: Any = type("Suite", (Sound,), {"cuts": ()})()
    with pytest.raises(
        AssertionError, match=re.escape("set `cuts` to the finish reasons for a full context window")
    ):
        suite.test_a_full_context_window_is_a_cut_and_no_end()
