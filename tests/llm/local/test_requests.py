"""What `LocalLlm` sends to a llama.cpp server, field by field, and how it takes what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.llm.local.scripted_llama import LAST, ScriptedLlama, events
from tests.llm.test_wrong_types import changed
from wesichain.core import LlmRequest, LlmResponse, Message, ModelSettings, Role, TextChunk, ToolSpec, Usage
from wesichain.errors import ConfigError, LlmError, LlmResponseError
from wesichain.llm.local import LocalLlm
from wesichain.llm.local.model import Timings

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
NOW = ToolSpec("now", "Tells.", {"type": "object", "properties": {}})
AGE = {"type": "object", "properties": {"age": {"type": "integer"}}}


class Server(ScriptedLlama):
    """Answers a completion with these events."""

    def __init__(self, *pieces: dict[str, Any], prompt: str = "P") -> None:
        super().__init__(events(*(pieces or ({"content": "hi", **LAST},))), prompt=prompt)

    @asynccontextmanager
    async def model(self, **options: Any) -> AsyncGenerator[LocalLlm]:
        async with self.listening() as url, LocalLlm("m", base_url=url, **options) as llm:
            yield llm


def request(*tools: ToolSpec, **more: Any) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "x"),), tools, **more)


ALL = ModelSettings(
    temperature=0.5, top_p=0.9, max_tokens=7, seed=3, cache="off", stop=("B",), extra={"min_p": 0.1}
)
CHOICES = ("auto", "none", "required", "now")
ASKED: dict[str, tuple[LlmRequest, dict[str, Any]]] = {
    "plain": (request(), {}),
    "options": (request(), {"max_tokens": 9, "temperature": 0.7, "seed": 5}),
    "settings": (request(settings=ALL, stop=("A",)), {}),
    "tools": (request(ADD, NOW), {}),
    "tools that nothing holds": (request(ADD), {"constrain": False}),
    "an answer": (request(output_schema=AGE), {}),
    "an answer that nothing holds": (request(output_schema=AGE), {"constrain": False}),
    "both": (request(ADD, output_schema=AGE), {}),
    **{f"tool choice {one}": (request(ADD, NOW, settings=ModelSettings(tool_choice=one)), {}) for one in CHOICES},
}  # fmt: skip


async def test_these_requests_are_made() -> None:
    """The chat, and the completion of the prompt that is made of it: in `whole_requests.txt`."""
    found = []
    for name, (asked, options) in ASKED.items():
        server = Server()
        async with server.model(**options) as llm:
            await llm.complete(asked)
        found += [f"{name}, {path}: {json.dumps(body, sort_keys=True)}" for path, body in server.asked]
    server = Server({"content": "a"}, {"content": "b", **LAST}, {"content": "c"})
    async with server.model() as llm:
        settings = ModelSettings(stop=("B",), top_p=0.5)
        assert await llm.complete_text("P", stop=["A"], settings=settings) == "ab"
    found += [f"a text, {path}: {json.dumps(body, sort_keys=True)}" for path, body in server.asked]
    expected.check(Path(__file__).with_name("whole_requests.txt"), found)


@pytest.mark.parametrize(
    ("timings", "told"),
    [
        (
            {"prompt_n": 1, "cache_n": 2, "predicted_n": 3, "prompt_ms": 4000, "predicted_ms": 5000},
            Timings(1, 2, 3, 4.0, 5.0),
        ),
        (None, Timings(0, 0, 0, 0.0, 0.0)),
    ],
)
async def test_the_timings_are_those_of_the_last_reply(timings: Any, told: Timings) -> None:
    async with Server(
        {"content": "a", "timings": {"prompt_n": 9}}, {**LAST, "timings": timings}
    ).model() as llm:
        assert llm.timings is None
        await llm.complete(request())
        assert llm.timings == told


TIMED = {"prompt_n": 1, "cache_n": 2, "predicted_n": 3, "prompt_ms": 4000.5, "predicted_ms": 5000.5}


async def test_a_wrong_type_anywhere_in_a_reply_is_a_reply_or_an_error_of_ours() -> None:
    pieces: list[dict[str, Any]] = [
        {"content": "a"},
        {"content": "b", "stop_type": "eos", **LAST, "timings": TIMED},
    ]
    given = [("/apply-template", json.dumps(wrong).encode()) for _, wrong in changed({"prompt": "P"})]
    for place, piece in enumerate(pieces):
        wrong_pieces = [[*pieces[:place], wrong, *pieces[place + 1 :]] for _, wrong in changed(piece)]
        given += [("/completion", events(*wrong)) for wrong in wrong_pieces]
    server = Server(*pieces)
    sound, faults = dict(server._answers), []
    async with server.model() as llm:
        for path, body in given:
            server._answers = {**sound, path: body}
            for asked in (llm.complete(request()), llm.complete_text("x")):
                try:
                    await asked
                except LlmError:
                    pass
                except Exception as error:  # all others are what is looked for
                    faults.append(f"{path} {body!r}: {type(error).__name__}: {error}")
    assert faults == []


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
    read = ("hm</think>4", "") if tools else ("4", "hm")
    assert (reply.content, reply.reasoning) == read


async def test_a_reply_without_its_last_word_is_cut() -> None:
    async with Server({"content": "a"}).model() as llm:
        with pytest.raises(LlmResponseError, match="was cut off; try again") as caught:
            await llm.complete(request())
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deadline": 0}, "deadline is 0; use the seconds that may pass without a byte"),
        ({"deadline": float("nan")}, "deadline is nan"),
        ({"grounded": True, "constrain": False}, "grounded=True needs the grammar"),
        ({"api_key": "k"}, "api_key is for another server; pass its base_url too"),
        ({"base_url": "http://h", "context": 1}, "context and threads are settings of the server"),
        ({"base_url": "http://h", "threads": 1}, "context and threads are settings of the server"),
        (
            {"base_url": "http://me:secret@h"},
            "a user name or password, which is not sent; pass api_key= instead",
        ),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LocalLlm("smollm2-135m", **options)


@pytest.mark.parametrize("choice", ["required", "add"])
def test_a_choice_that_only_a_grammar_keeps_is_refused_without_one(choice: str) -> None:
    free = LocalLlm("m", base_url="http://h", constrain=False)
    with pytest.raises(ConfigError, match=f"tool_choice='{choice}' needs the grammar"):
        free.check_settings(ModelSettings(tool_choice=choice))
    for allowed in (None, "auto", "none"):
        free.check_settings(ModelSettings(tool_choice=allowed))
    LocalLlm("m", base_url="http://h").check_settings(ModelSettings(tool_choice=choice))
