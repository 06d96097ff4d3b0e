"""What `LocalLlm` sends to a llama.cpp server, field by field, and how it takes what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    Role,
    TextChunk,
    ToolSpec,
    Usage,
)
from wesichain.errors import ConfigError, LlmResponseError
from wesichain.llm.local import LocalLlm
from wesichain.llm.local.grammar import answer_grammar, reply_grammar
from wesichain.llm.local.model import Timings

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
NOW = ToolSpec("now", "Tells.", {"type": "object", "properties": {}})
AGE = {"type": "object", "properties": {"age": {"type": "integer"}}}
LAST = {"stop": True, "tokens_evaluated": 3, "tokens_predicted": 2}
EVERY = {"prompt": "P", "cache_prompt": True, "n_predict": 512, "temperature": 0.0, "seed": 0, "stop": []}


class Server:
    """Remembers what it is asked, and answers a completion with these events."""

    def __init__(self, *events: dict[str, Any], prompt: str = "P") -> None:
        self.asked: list[tuple[str, Any]] = []
        self._events = events or ({"content": "hi", **LAST},)
        self._prompt = prompt

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
        body = await reader.readexactly(int(length.partition(":")[2]))
        self.asked.append((head.split()[1], json.loads(body)))
        answer = json.dumps({"prompt": self._prompt}).encode()
        if head.split()[1] == "/completion":
            answer = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in self._events)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + answer)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def model(self, **options: Any) -> AsyncGenerator[LocalLlm]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with LocalLlm("m", base_url=f"http://127.0.0.1:{port}", **options) as llm:
            yield llm
        server.close()

    def completion(self) -> dict[str, Any]:
        return {
            name: value for path, body in self.asked if path == "/completion" for name, value in body.items()
        }


def request(*tools: ToolSpec, **more: Any) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "x"),), tools, **more)


def grammar(*tools: ToolSpec, must_call: bool = False, output: Any = None) -> dict[str, Any]:
    return {"grammar": reply_grammar(tools, output, thoughts=False, values=None, must_call=must_call)}


ALL = ModelSettings(
    temperature=0.5, top_p=0.9, max_tokens=7, seed=3, cache="off", stop=("B",), extra={"min_p": 0.1}
)


@pytest.mark.parametrize(
    ("asked", "options", "sent"),
    [
        pytest.param(request(), {}, {}, id="plain"),
        pytest.param(
            request(), {"max_tokens": 9, "temperature": 0.7, "seed": 5},
            {"n_predict": 9, "temperature": 0.7, "seed": 5}, id="options",
        ),
        pytest.param(
            request(settings=ALL, stop=("A",)), {},
            {"temperature": 0.5, "top_p": 0.9, "n_predict": 7, "seed": 3, "cache_prompt": False, "min_p": 0.1,
             "stop": ["A", "B"]},
            id="settings",
        ),
        pytest.param(request(ADD, NOW), {}, grammar(ADD, NOW), id="tools"),
        pytest.param(request(ADD), {"constrain": False}, {}, id="tools-that-nothing-holds"),
        pytest.param(request(output_schema=AGE), {}, {"grammar": answer_grammar(AGE)}, id="an-answer"),
        pytest.param(request(output_schema=AGE), {"constrain": False}, {}, id="an-answer-that-nothing-holds"),
        pytest.param(request(ADD, output_schema=AGE), {}, grammar(ADD, output=AGE), id="both"),
        pytest.param(
            request(ADD, NOW, settings=ModelSettings(tool_choice="auto")), {}, grammar(ADD, NOW), id="any"
        ),
        pytest.param(request(ADD, settings=ModelSettings(tool_choice="none")), {}, {}, id="none"),
        pytest.param(
            request(ADD, NOW, settings=ModelSettings(tool_choice="required")), {},
            grammar(ADD, NOW, must_call=True), id="required",
        ),
        pytest.param(
            request(ADD, NOW, settings=ModelSettings(tool_choice="now")), {}, grammar(NOW, must_call=True), id="one"
        ),
    ],
)  # fmt: skip
async def test_a_completion_is_asked_for_with_these_fields(
    asked: LlmRequest, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    server = Server()
    async with server.model(**options) as llm:
        await llm.complete(asked)
    assert [path for path, _ in server.asked] == ["/apply-template", "/completion"]
    assert server.completion() == {**EVERY, "stream": True, **sent}


async def test_a_text_is_continued_as_it_is() -> None:
    server = Server({"content": "a"}, {"content": "b", **LAST}, {"content": "c"})
    async with server.model() as llm:
        assert (
            await llm.complete_text("P", stop=["A"], settings=ModelSettings(stop=("B",), top_p=0.5)) == "ab"
        )
    assert server.asked == [("/completion", {**EVERY, "stream": True, "stop": ["A", "B"], "top_p": 0.5})]


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        (
            {"prompt_n": 1, "cache_n": 2, "predicted_n": 3, "prompt_ms": 4000, "predicted_ms": 5000},
            Timings(1, 2, 3, 4.0, 5.0),
        ),
        (None, Timings(0, 0, 0, 0.0, 0.0)),
    ],
)
async def test_the_timings_are_those_of_the_last_reply(timings: Any, expected: Timings) -> None:
    async with Server(
        {"content": "a", "timings": {"prompt_n": 9}}, {**LAST, "timings": timings}
    ).model() as llm:
        assert llm.timings is None
        await llm.complete(request())
        assert llm.timings == expected


async def test_an_answer_is_shown_as_it_comes_and_a_call_is_not() -> None:
    pieces: list[dict[str, Any]] = [
        {"content": '{"answer": "h'},
        {"content": ""},
        {"content": 'i"}', **LAST, "stop_type": "limit"},
    ]
    async with Server(*pieces).model() as llm:
        items = [item async for item in llm.stream(request(ADD))]
    last = LlmResponse("hi", usage=Usage(3, 2), finish_reason="length")
    assert items == [TextChunk("h"), TextChunk("i"), last]
    async with Server(*pieces).model() as llm:
        shown = [item async for item in llm.stream(request(ADD, output_schema=AGE))]
    assert [type(item) for item in shown] == [LlmResponse]
    async with Server({"content": '{"tool": "add", "args": {"a": 1}}', **LAST}).model() as llm:
        (called,) = [item async for item in llm.stream(request(ADD))]
    assert isinstance(called, LlmResponse)
    assert (called.tool_calls[0].name, called.tool_calls[0].args) == ("add", {"a": 1})


@pytest.mark.parametrize("tools", [(), (ADD,)])
async def test_thinking_that_the_prompt_opens_is_reasoning_where_nothing_holds_the_reply(
    tools: tuple[ToolSpec, ...],
) -> None:
    server = Server({"content": "hm</think>4", **LAST}, prompt="P<think>\n")
    async with server.model(constrain=False) as llm:
        reply = await llm.complete(request(*tools))
    expected = ("hm</think>4", "") if tools else ("4", "hm")
    assert (reply.content, reply.reasoning) == expected


async def test_a_reply_without_its_last_word_is_cut() -> None:
    async with Server({"content": "a"}).model() as llm:
        with pytest.raises(
            LlmResponseError, match="ended its reply without a last word; ask again"
        ) as caught:
            await llm.complete(request())
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deadline": 0}, "deadline is 0; give the seconds that may pass without a byte"),
        ({"deadline": float("nan")}, "deadline is nan"),
        ({"grounded": True, "constrain": False}, "grounded=True is kept by the grammar"),
        ({"api_key": "k"}, "api_key is for a server elsewhere; give its base_url too"),
        ({"base_url": "http://h", "context": 1}, "context and threads are settings of the server"),
        ({"base_url": "http://h", "threads": 1}, "context and threads are settings of the server"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LocalLlm("smollm2-135m", **options)


@pytest.mark.parametrize("choice", ["required", "add"])
def test_a_choice_that_only_a_grammar_keeps_is_refused_without_one(choice: str) -> None:
    free = LocalLlm("m", base_url="http://h", constrain=False)
    with pytest.raises(ConfigError, match=f"tool_choice='{choice}' is kept by the grammar"):
        free.check_settings(ModelSettings(tool_choice=choice))
    for allowed in (None, "auto", "none"):
        free.check_settings(ModelSettings(tool_choice=allowed))
    LocalLlm("m", base_url="http://h").check_settings(ModelSettings(tool_choice=choice))
