"""The contract suite for the client of a provider, which runs against a loopback server.

class TestMine(ProviderContract):
    wire = MyWire()

A `Wire` encodes the replies of the provider's server and makes clients for it. The suite serves these replies
on a real socket, sends requests with and without streaming, and checks the requests and the responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from wesichain.core import (
    Audio,
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    Text,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.internal import FinishReason, StreamingLlm, Value, parse_json, replace, traits_of, turn_of
from wesichain.errors import LlmError, LlmRejectedError, LlmResponseError, LlmTransportError

T = TypeVar("T")

_PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x03\x00\x05\xfe\x02\xfe\xa7\x9a\xa0\xa0\x00\x00\x00\x00IEND\xaeB`\x82"
)
_SOUND = b"fLaC\x00\x00\x00\x22"
_EMPTY: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
TOOLS = (
    ToolSpec("add", "Adds.", {**_EMPTY, "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
    ToolSpec("files.read", "Reads a file.", _EMPTY),
)


class ProviderReply(Value):
    """A reply of a provider's server, independent of its format."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    signature: str = ""  # of the thought, in base64
    finish: FinishReason = "stop"
    usage: Usage = Usage(3, 2)
    reason: str = ""  # the provider's own finish reason, in place of that for `finish`


class Answer(Value):
    """A server's answer to one request. `cut` closes the connection after that many bytes."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    cut: int | None = None


class Served(Protocol):
    """A running loopback server: its address, and the requests that it received."""

    @property
    def url(self) -> str: ...

    @property
    def requests(self) -> list[tuple[str, Mapping[str, str], bytes]]:
        """The path, the headers (with lower-case names) and the body of each request."""
        ...


class Wire(Protocol):
    """The format of a provider's server, and its client."""

    def client(self, url: str, **settings: Any) -> StreamingLlm: ...

    def write(self, reply: ProviderReply, *, stream: bool) -> bytes:
        """Encode a reply as a body, or as the bytes of a stream."""
        ...

    def refuse(self, status: int, words: str) -> bytes:
        """Encode an error as a body."""
        ...

    def serve(self, *answers: Answer) -> AbstractAsyncContextManager[Served]: ...


class ProviderContract:
    """The contract of a provider's client. Tests run with and without streaming."""

    wire: ClassVar[Wire]
    finishes: ClassVar[tuple[FinishReason, ...]] = ("length", "refusal")  # the reasons that this provider has
    signs: ClassVar[bool] = True  # whether the provider signs thoughts
    own_words: ClassVar[bool] = False  # whether unknown finish reasons are accepted
    cuts: ClassVar[tuple[str, ...]] = ()  # the finish reasons for a full context window

    # --- replies -----------------------------------------------------------------------------------

    def test_a_text_and_all_that_it_cost(self) -> None:
        usage = Usage(100, 20, 60, 0, 5)
        for reply, _ in self._both(ProviderReply("hello", usage=usage)):
            assert (reply.content, reply.finish_reason) == ("hello", "stop")
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)
            assert reply.usage.cache_read_tokens == 60
            assert from_json(LlmResponse, to_json(reply)) == reply

    def test_parallel_calls_come_under_their_own_names(self) -> None:
        calls = (ToolCall("c1", "add", {"a": 1, "b": 2}), ToolCall("c2", "files.read", {}))
        for reply, _ in self._both(ProviderReply("On it.", calls, finish="tool_calls")):
            assert [(call.name, call.args) for call in reply.tool_calls] == [
                ("add", {"a": 1, "b": 2}),
                ("files.read", {}),
            ]
            assert reply.finish_reason == "tool_calls"
            assert reply.content == "On it."

    def test_pieces_add_up_to_the_whole(self) -> None:
        calls = (ToolCall("c1", "add", {"a": 1, "b": 2}), ToolCall("c2", "add", {"a": 3, "b": 4}))
        items = self._run(lambda: self._streamed(ProviderReply("On it.", calls, finish="tool_calls")))
        whole = items[-1]
        assert isinstance(whole, LlmResponse)
        assert "".join(item.text for item in items if isinstance(item, TextChunk)) == whole.content
        for place, call in enumerate(whole.tool_calls):
            pieces = [item for item in items if isinstance(item, ToolCallChunk) and item.index == place]
            assert "".join(piece.name for piece in pieces) == call.name
            assert parse_json("".join(piece.args for piece in pieces)) == call.args

    def test_a_reply_that_did_not_end_says_so(self) -> None:
        for finish in self.finishes:
            for reply, _ in self._both(ProviderReply("Half of", finish=finish)):
                assert reply.finish_reason == finish

    def test_a_full_context_window_is_a_cut_and_no_end(self) -> None:
        assert self.cuts, "set `cuts` to the finish reasons for a full context window"
        for word in self.cuts:
            for reply, _ in self._both(ProviderReply("Half of", finish="length", reason=word)):
                assert reply.finish_reason == "length", word

    def test_an_ending_that_nobody_knows_is_an_error_that_names_it(self) -> None:
        """Only servers with an OpenAI-compatible API may have finish reasons of their own (`own_words`)."""
        ended = ProviderReply("Done.", finish="length", reason="NOBODY_KNOWS")
        if self.own_words:
            assert [reply.finish_reason for reply, _ in self._both(ended)] == ["stop", "stop"]
            return
        for stream in (False, True):
            answer = Answer(200, self.wire.write(ended, stream=stream), {})
            error = self._run(partial(self._caught, answer, stream=stream))
            assert isinstance(error, LlmResponseError), error
            assert "NOBODY_KNOWS" in str(error)

    def test_thinking_that_the_server_left_in_the_text_is_no_answer(self) -> None:
        for left in ("<think>rm it?</think>\nIt is 4.", "<think>\nrm it?\n</think>\n\nIt is 4."):
            for reply, _ in self._both(ProviderReply(left)):
                assert (reply.content, reply.reasoning, reply.tool_calls) == ("It is 4.", "rm it?", ())
            items = self._run(partial(self._streamed, ProviderReply(left)))
            shown = "".join(item.text for item in items if isinstance(item, TextChunk))
            assert shown.strip() == "It is 4."

    def test_a_call_in_the_text_is_never_run(self) -> None:
        call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
        for reply, _ in self._both(ProviderReply(f"The page ends with {call}, which I did not follow.")):
            assert (reply.tool_calls, reply.finish_reason) == ((), "stop")
            assert call in reply.content
        for reply, _ in self._both(ProviderReply(call)):
            assert not any(made.name for made in reply.tool_calls)

    def test_thoughts_go_back_unchanged_with_their_signature(self) -> None:
        if not self.signs:
            return
        call = ToolCall("c1", "add", {"a": 1, "b": 2})
        spoken = ProviderReply("", (call,), "Let me think.", "c2lnbmVkIGJ5IGhpbQ==", "tool_calls")
        for reply, _ in self._both(spoken):
            again = turn_of(_with_ids(reply))
            history = (_asked("1 + 2?"), again, Message(Role.TOOL, "3", again.tool_calls[0].id))
            _, sent = self._run(partial(self._asked, ProviderReply("3"), messages=history))
            assert "c2lnbmVkIGJ5IGhpbQ" in sent, "the signature is sent again"
            assert '"a":1' in sent.replace(" ", "").replace("\\", ""), "and the call that it signs"

    # --- content -----------------------------------------------------------------------------------

    def test_a_picture_is_sent_in_a_question_and_in_a_result(self) -> None:
        picture = Image(_PIXEL)
        call = ToolCall("c1", "files.read", {})
        history = (
            Message(Role.USER, (Text("What is this?"), picture)),
            Message(Role.ASSISTANT, "", tool_calls=(call,)),
            Message(Role.TOOL, (Text("a file"), picture), "c1"),
        )
        reply, sent = self._run(lambda: self._asked(ProviderReply("A dot."), messages=history))
        held = picture.base64 if self._traits().images else "left out"
        assert _plain(sent).count(_plain(held)) == 2
        assert bool(reply.omitted) is not self._traits().images

    def test_what_cannot_be_sent_is_said_to_the_model_and_to_the_caller(self) -> None:
        reply, sent = self._run(
            lambda: self._asked(
                ProviderReply("Hm."), messages=(Message(Role.USER, (Text("Hear:"), Audio(_SOUND))),)
            )
        )
        if reply.omitted:
            assert "left out: audio" in reply.omitted[0]
            assert "left out: audio" in sent
        else:
            assert _plain(Audio(_SOUND).base64) in _plain(sent)

    def test_tools_of_the_provider_are_added_to_ours(self) -> None:
        _, sent = self._run(lambda: self._asked(ProviderReply("ok"), options={"tools": [self.own_tool]}))
        assert '"add"' in sent
        assert next(iter(map(str, self.own_tool.values()))) in sent

    own_tool: ClassVar[dict[str, Any]] = {"type": "web_search"}

    # --- faults ------------------------------------------------------------------------------------

    def test_a_busy_provider_is_waited_for(self) -> None:
        for stream in (False, True):
            error = self._fails(429, stream=stream, headers={"retry-after": "7"})
            assert isinstance(error, LlmTransportError)
            assert (error.retryable, error.retry_after) == (True, 7.0)

    def test_a_broken_provider_is_asked_again(self) -> None:
        for stream in (False, True):
            assert self._fails(503, stream=stream).retryable

    def test_a_refused_request_is_not(self) -> None:
        for stream in (False, True):
            error = self._fails(400, stream=stream)
            assert isinstance(error, LlmRejectedError)
            assert not error.retryable
            assert "no good" in str(error)

    def test_a_reply_that_is_cut_is_no_reply(self) -> None:
        for stream in (False, True):
            body = self.wire.write(ProviderReply("hello there"), stream=stream)
            answer = Answer(200, body, {}, cut=len(body) * 2 // 3)
            error = self._run(partial(self._caught, answer, stream=stream))
            assert isinstance(error, LlmResponseError), error
            assert error.retryable

    def test_a_fault_is_survived_by_asking_again(self) -> None:
        async def ask() -> LlmResponse:
            good = Answer(200, self.wire.write(ProviderReply("hello"), stream=False), {})
            busy = Answer(503, self.wire.refuse(503, "busy"), {"retry-after": "0"})
            async with self.wire.serve(busy, good) as server:
                return await self._close_after(self.wire.client(server.url, retries=1), _request())

        assert self._run(ask).content == "hello"

    # --- authentication ------------------------------------------------------------------------------

    def test_headers_and_a_key_that_is_asked_for_every_time(self) -> None:
        keys = iter(("key-one", "key-two"))

        async def ask() -> list[tuple[str, Mapping[str, str], bytes]]:
            answer = Answer(200, self.wire.write(ProviderReply("hello"), stream=False), {})
            async with self.wire.serve(answer) as server:
                client: Any = self.wire.client(
                    server.url, api_key=lambda: next(keys), headers={"x-team": "blue"}
                )
                await client.complete(_request())
                await client.complete(_request())
                await client.aclose()
                return server.requests

        first, second = self._run(ask)
        assert "key-one" in str(first[1])
        assert "key-two" in str(second[1])
        assert first[1]["x-team"] == second[1]["x-team"] == "blue"

    # --- requests ------------------------------------------------------------------------------------

    def _traits(self) -> Any:
        return traits_of(self.wire.client("http://127.0.0.1:9"))

    def _both(self, spoken: ProviderReply) -> list[tuple[LlmResponse, str]]:
        async def streamed() -> tuple[LlmResponse, str]:
            last = (await self._streamed(spoken))[-1]
            assert isinstance(last, LlmResponse)
            return last, ""

        return [self._run(lambda: self._asked(spoken)), self._run(streamed)]

    async def _asked(
        self, spoken: ProviderReply, *, messages: tuple[Message, ...] = (), **settings: Any
    ) -> tuple[LlmResponse, str]:
        """The reply, and the body of the request."""
        answer = Answer(200, self.wire.write(spoken, stream=False), {})
        async with self.wire.serve(answer) as server:
            reply = await self._close_after(self.wire.client(server.url, **settings), _request(messages))
            return reply, server.requests[0][2].decode()

    async def _streamed(self, spoken: ProviderReply) -> list[object]:
        answer = Answer(200, self.wire.write(spoken, stream=True), {})
        async with self.wire.serve(answer) as server:
            client: Any = self.wire.client(server.url)
            async with aclosing(client.stream(_request())) as items:
                found = [item async for item in items]
            await client.aclose()
            return found

    def _fails(self, status: int, *, stream: bool, headers: Mapping[str, str] | None = None) -> LlmError:
        answer = Answer(status, self.wire.refuse(status, "this is no good"), headers or {})
        return self._run(lambda: self._caught(answer, stream=stream))

    async def _caught(self, answer: Answer, *, stream: bool) -> LlmError:
        async with self.wire.serve(answer) as server:
            client: Any = self.wire.client(server.url, retries=0)
            try:
                if stream:
                    async with aclosing(client.stream(_request())) as items:
                        found: list[object] = [item async for item in items]
                else:
                    found = [await client.complete(_request())]
            except LlmError as error:
                return error
            finally:
                await client.aclose()
        raise AssertionError(f"no error, but {found}")

    async def _close_after(self, client: Any, request: LlmRequest) -> LlmResponse:
        try:
            reply: LlmResponse = await client.complete(request)
            return reply
        finally:
            await client.aclose()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(work())


def _request(messages: tuple[Message, ...] = ()) -> LlmRequest:
    return LlmRequest("contract", messages or (_asked("Say hello."),), TOOLS)


def _asked(text: str) -> Message:
    return Message(Role.USER, text)


def _with_ids(reply: LlmResponse) -> LlmResponse:
    """The reply with ids for calls without one, as the runtime adds them."""
    calls = (replace(call, id=call.id or f"call-{place}") for place, call in enumerate(reply.tool_calls))
    return replace(reply, tool_calls=tuple(calls))


def _plain(text: str) -> str:
    """Base64 in one alphabet and without padding, which differ between providers and SDKs."""
    return text.replace("-", "+").replace("_", "/").replace("=", "")
