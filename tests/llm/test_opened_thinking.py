"""Thinking whose beginning stands in the prompt: none of it is shown in a stream of which that can be known."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, LlmTraits, Message, Role, TextChunk
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import OpenAiClient
from wesichain.llm.react_text import TextReAct
from wesichain.llm.react_text.reasoning import opened_by

THOUGHT, ANSWER = "They ask for two and two. ", "It is 4."
REPLY = f"{THOUGHT}</think>\n\n{ANSWER}"
ASKED = LlmRequest("m", (Message(Role.USER, "2 + 2?"),))


class Server(ThreadingHTTPServer):
    """Speaks chat completions, and llama.cpp's own wire: says `reply` in pieces of three characters."""

    daemon_threads = True
    reply = REPLY
    prompt_end = "<think>\n"
    stop_type = "eos"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    @override
    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = self.server.reply
        pieces = [said[at : at + 3] for at in range(0, len(said), 3)]
        if self.path.endswith("/apply-template"):
            prompt = f"<|user|>{body['messages'][-1]['content']}<|assistant|>{self.server.prompt_end}"
            self._send(json.dumps({"prompt": prompt}))
        elif self.path.endswith("/completion"):
            events: list[Any] = [{"content": piece} for piece in pieces]
            last = {"content": "", "stop": True, "stop_type": self.server.stop_type}
            events.append({**last, "tokens_evaluated": 5, "tokens_predicted": 9, "timings": {}})
            self._stream(events)
        elif body.get("stream"):
            self._stream(
                [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces], "[DONE]"
            )
        else:
            message = {"role": "assistant", "content": said}
            self._send(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}))

    def _stream(self, events: list[Any], *ends: str) -> None:
        lines = [*map(json.dumps, events), *ends]
        self._send("".join(f"data: {line}\n\n" for line in lines), "text/event-stream")

    def _send(self, text: str, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def serving() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


async def streamed(llm: Any) -> tuple[str, LlmResponse]:
    shown, whole = "", None
    async for item in llm.stream(ASKED):
        if isinstance(item, TextChunk):
            shown += item.text
        elif isinstance(item, LlmResponse):
            whole = item
    assert whole is not None
    return shown, whole


def client(server: Server, **settings: Any) -> OpenAiClient:
    return OpenAiClient("m", base_url=f"{url(server)}/v1", **settings)


async def test_a_client_that_is_told_shows_none_of_it_in_the_first_stream(server: Server) -> None:
    async with client(server, traits=replace(OpenAiClient.traits, opens_thinking=True)) as llm:
        shown, whole = await streamed(llm)
        assert (shown, whole.content, whole.reasoning) == (ANSWER, ANSWER, THOUGHT.strip())
        server.reply = ANSWER  # this time it does not think, or the server has taken that out
        assert (await streamed(llm))[0] == ANSWER


async def test_a_client_that_is_not_told_learns_it_from_its_first_reply_of_any_kind(server: Server) -> None:
    async with client(server) as llm:
        shown, whole = await streamed(llm)
        assert THOUGHT.strip() in shown, "nobody could know"
        assert whole.content == ANSWER
        assert (await streamed(llm))[0] == ANSWER
    async with client(server) as other:
        assert (await other.complete(ASKED)).content == ANSWER
        assert (await streamed(other))[0] == ANSWER


async def test_blocks_that_the_reply_opens_itself_teach_nothing(server: Server) -> None:
    server.reply = f"<think>{THOUGHT}</think>{ANSWER}"
    async with client(server) as llm:
        await llm.complete(ASKED)
        server.reply = ANSWER
        pieces = [item async for item in llm.stream(ASKED) if isinstance(item, TextChunk)]
        assert len(pieces) > 1, "it is shown as it comes"


@pytest.mark.parametrize("end", ["<think>\n", "[THINK]", "<|START_THINKING|><think>", "<seed:think>"])
async def test_a_local_model_sees_it_in_its_prompt(server: Server, end: str) -> None:
    server.prompt_end = end
    async with LocalLlm("any", base_url=url(server)) as llm:
        for _ in range(2):
            shown, whole = await streamed(llm)
            assert (shown, whole.content, whole.reasoning) == (ANSWER, ANSWER, THOUGHT.strip())


async def test_a_local_model_whose_thinking_never_ends_has_said_nothing(server: Server) -> None:
    server.reply, server.stop_type = THOUGHT, "limit"
    async with LocalLlm("any", base_url=url(server)) as llm:
        shown, whole = await streamed(llm)
        assert (shown, whole.content, whole.finish_reason) == ("", "", "length")
        assert THOUGHT.strip() in whole.reasoning
        server.prompt_end = ""
        assert (await streamed(llm))[1].content == THOUGHT, (
            "of a template that opens nothing it is the answer"
        )


async def test_text_react_goes_by_the_traits_of_its_model() -> None:
    class Model:
        model = "m"
        traits = LlmTraits(opens_thinking=True)

        async def complete(self, request: LlmRequest) -> LlmResponse:
            return LlmResponse(f"{THOUGHT}</think>Final Answer: 4")

        async def stream(self, request: LlmRequest) -> Any:
            whole = await self.complete(request)
            for letter in whole.content:
                yield TextChunk(letter)
            yield whole

    shown, whole = await streamed(TextReAct(Model()))
    assert THOUGHT.strip() not in shown
    assert (shown.strip(), whole.content) == ("4", "4")


@given(before=st.text(max_size=40), blanks=st.sampled_from(["", "\n", "  \n\n"]))
def test_a_prompt_opens_thinking_only_with_its_last_mark(before: str, blanks: str) -> None:
    assert opened_by(f"{before}<think>{blanks}") == "<think>"
    assert opened_by(f"{before}<think>{blanks}</think>{blanks}") == ""
    assert opened_by(f"{before}<think>{blanks}Hello") == ""
