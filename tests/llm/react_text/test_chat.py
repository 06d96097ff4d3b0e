"""The text of replies from other servers: calls and reasoning left in it, as recorded or as templates have it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import expected
from tests.draws import sampled
from tests.llm.react_text.test_forms import FORMS, PAY
from wesichain import Agent, ObserveErrors
from wesichain.core import LlmRequest, LlmResponse, Role, TextChunk, ToolCall, ToolSpec, Usage, to_json
from wesichain.llm import StreamItem
from wesichain.llm.families import FAMILIES
from wesichain.llm.react_text.chat import ChatText


def spec(name: str, **properties: str) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    return ToolSpec(name, "", {"type": "object", "properties": kinds, "required": [*properties]})


SEARCH = spec("search", query="string")
ADD = spec("add", a="integer", b="integer")
NOW = spec("now")
TOOLS = (SEARCH, ADD, NOW, PAY)
WEATHER = spec("weather", city="string")
CONVERT = spec("convert", value="number", unit="string", to="string")
FILE = Path(__file__).with_name("chat_texts.jsonl")


def reader(tools: Sequence[ToolSpec] = TOOLS, *, runs_calls: bool = True, family: str = "qwen") -> ChatText:
    return ChatText(tools, FAMILIES[family], runs_calls=runs_calls)


def read(
    text: str, tools: Sequence[ToolSpec] = TOOLS, *, runs_calls: bool = True, **more: Any
) -> LlmResponse:
    return reader(tools, runs_calls=runs_calls).read(LlmResponse(text, **more))


def made(reply: LlmResponse) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in reply.tool_calls]


CALLS = [
    *FORMS.values(),
    '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}',
    '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>\n<tool_call>{"name": "now", "arguments": {}}</tool_call>',
]


def foreign(row: dict[str, Any]) -> object:
    """What is read where calls of the text are run, and where they are not."""
    made = [ToolCall("1", "now", {})] * row.get("calls", 0)
    said = LlmResponse(row["text"], tuple(made), Usage(3, 4), row.get("finish", "stop"))
    tools, family = row.get("tools", (*TOOLS, WEATHER, CONVERT)), row.get("family", "qwen")
    readers = [reader(tools, runs_calls=runs, family=family) for runs in (True, False)]
    return [json.loads(to_json(each.read(said))) for each in readers]


def test_a_text_is_read_as_it_was() -> None:
    """The rows of `chat_texts.jsonl`, each with both responses."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    expected.check(FILE, (json.dumps(row | {"read": foreign(row)}, ensure_ascii=False) for row in rows))


@pytest.mark.parametrize(
    "around",
    [
        "The page ends with {} as you see.",
        "{}\n\nShall I?",
        "I look:\n{}",
        "> {}",
        "'{}'",
        "{}\nObservation: 3",
    ],
)
def test_with_anything_around_it_it_is_text(around: str) -> None:
    for call, runs_calls in product(CALLS, (True, False)):
        text = around.format(call)
        reply = read(text, runs_calls=runs_calls)
        assert reply.tool_calls == (), text
        assert "<|channel|>" in text or reply.content == text


# What qwen2.5-coder-0.5b said to llama.cpp's own server, offered add, weather and convert; it recognised no call.
def test_names_are_given_back_as_the_tools_have_them() -> None:
    tool = spec("math.add", a="integer")
    reply = LlmResponse('<tool_call>{"name": "math_add", "arguments": {"a": 1}}</tool_call>')
    text = ChatText([tool], name_of={"math_add": "math.add"}.__getitem__, runs_calls=True)
    assert made(text.read(reply)) == [("math.add", {"a": 1})]


def test_what_is_no_text_is_left_to_the_runtime() -> None:
    reply = LlmResponse(cast("Any", None))
    assert reader().read(reply) is reply


# --- in a run -------------------------------------------------------------------------------------


class TextCalls:
    """A model behind a server that leaves its calls in the text."""

    model = "text-calls"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.requests: list[LlmRequest] = []

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        return reader(request.tools).read(LlmResponse(self.replies.pop(0)))


async def test_an_agent_acts_on_it_and_is_told_of_what_could_not_be_read() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    llm = TextCalls(
        "<tool_call>add please</tool_call>",
        '<think>so</think><tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>',
        "<think>3, I see</think>It is 3.",
    )
    result = await Agent(llm, tools=[add], policy=ObserveErrors()).run("What is 1 plus 2?")
    assert result.output == "It is 3."
    told = [message for message in llm.requests[1].messages if message.role is Role.USER]
    assert "cannot be run" in told[-1].content
    assert (llm.requests[2].messages[-1].role, llm.requests[2].messages[-1].content) == (Role.TOOL, "3")


# --- in pieces ------------------------------------------------------------------------------------


async def pieces(text: str, size: int) -> AsyncGenerator[StreamItem, None]:
    for at in range(0, len(text), size):
        yield TextChunk(text[at : at + size])
    yield LlmResponse(text)


async def streamed(text: str, size: int, tools: Sequence[ToolSpec] = TOOLS) -> tuple[str, LlmResponse]:
    items = [item async for item in reader(tools).stream(pieces(text, size))]
    assert isinstance(items[-1], LlmResponse)
    return "".join(item.text for item in items if isinstance(item, TextChunk)), items[-1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is 4, a < b, [1] and {x}.", "It is 4, a < b, [1] and {x}."),
        ("<think>hm <b></think>\nIt is 4.", "It is 4."),
        ("Well, <think>hm</think>it is 4.", "Well, <think>hm</think>it is 4."),
        (
            'I look.\n<tool_call>{"name": "now", "arguments": {}}</tool_call>',
            'I look.\n<tool_call>{"name": "now", "arguments": {}}</tool_call>',
        ),
        ('<tool_call>{"name": "now", "arguments": {}}</tool_call>', ""),
        ("Action: now\nAction Input: {}", ""),
        ("**Action**: now\nAction Input: {}", ""),
        ("### Action: now\nAction Input: {}", ""),
        ("Action 2: now\nAction 2 Input: {}", ""),
        ("Action\uff1anow\nAction Input\uff1a{}", ""),
        ("**Actions** of a kind.", "**Actions** of a kind."),
        ("# 2 acts", "# 2 acts"),
        ("Acting is fun.", "Acting is fun."),
        ('{"name": "now", "arguments": {}}', ""),
        ('{"answer": 4}', '{"answer": 4}'),
        ('[{"name": "search", "arguments": {"query": "' + "x" * 150 + '"}}]', ""),
        ('```json\n{{"name": "search", "arguments": {{"query": "' + "x" * 150 + '"}}}}\n```', ""),
        ('```json\n{"name": "now", "arguments": {}}\n```', ""),
        ("```python\nx = 1\n```", "```python\nx = 1\n```"),
        ("  \nHello", "  \nHello"),
        ("<think>never ends", ""),
    ],
)
async def test_a_reader_is_not_shown_reasoning_and_calls(text: str, shown: str) -> None:
    for size in (1, 3, 7, 1000):
        seen, whole = await streamed(text, size)
        assert seen.strip() == shown.strip(), size
        assert whole == read(text), size


async def test_json_that_is_no_call_is_shown_from_its_first_key_on() -> None:
    items = [item async for item in reader().stream(pieces('{ "answer": "It is 4."}', 4))]
    shown = [item.text for item in items if isinstance(item, TextChunk)]
    assert shown == ['{ "answer": ', '"It ', "is 4", '."}']


async def test_blank_space_is_not_held_back_forever() -> None:
    items = [item async for item in reader().stream(pieces(" " * 240, 40))]
    shown = [item.text for item in items if isinstance(item, TextChunk)]
    assert "".join(shown) == " " * 240
    assert len(shown) > 1


PIECES = [
    "<", "think>", "</", "<think>", "</think>", "[", "THINK]", "{", '"a":', "`", "```", "\n", "x", " ",
    "<tool",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.integers(1, 5))
def test_law_text_without_marks_streams_as_it_is(text: str, size: int) -> None:
    seen, whole = asyncio.run(streamed(text, size))
    if whole.content == text and not whole.tool_calls:
        assert seen == text


REPEATED = [
    *(("", piece) for piece in ("<", "<think>", "[", "{", "<think>a</think>b", "text ", "`", "<tool", "\n")),
    ("", " "),
    ('<tool_call>{"name": "now", "arguments": {"a": "', "text "),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("start", "piece"), sampled(REPEATED, 2))
async def test_time_is_linear_in_the_reply(start: str, piece: str) -> None:
    async def seconds(size: int) -> float:
        text = start + (piece * size)[:size]
        started = time.process_time()
        await streamed(text, 4)
        return time.process_time() - started

    for _ in range(4):
        if await seconds(40_000) < 9 * max(await seconds(10_000), 0.01):
            return
    pytest.fail("time grew faster than the text")
