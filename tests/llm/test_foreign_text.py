"""The text of replies from other servers: calls and reasoning left in it, as recorded or as templates have it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import sampled
from tests.llm.react_text.test_forms import FORMS, PAY
from wesichain import Agent, ObserveErrors
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Role,
    StreamItem,
    TextChunk,
    ToolCall,
    ToolSpec,
    Usage,
)
from wesichain.llm.foreign_text import ForeignText
from wesichain.llm.react_text.reasoning import ReasoningStyle


def spec(name: str, **properties: str) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    return ToolSpec(name, "", {"type": "object", "properties": kinds, "required": [*properties]})


SEARCH = spec("search", query="string")
ADD = spec("add", a="integer", b="integer")
NOW = spec("now")
TOOLS = (SEARCH, ADD, NOW, PAY)


def reader(tools: Sequence[ToolSpec] = TOOLS, *, runs_calls: bool = True) -> ForeignText:
    return ForeignText(tools, ReasoningStyle(), runs_calls=runs_calls)


def read(
    text: str, tools: Sequence[ToolSpec] = TOOLS, *, runs_calls: bool = True, **more: Any
) -> LlmResponse:
    return reader(tools, runs_calls=runs_calls).read(LlmResponse(text, **more))


def made(reply: LlmResponse) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in reply.tool_calls]


SEARCHED = [("search", {"query": "ReAct"})]
ADDED = [("add", {"a": 1, "b": 2})]
CALLS = [
    *(pytest.param(text, [("pay", {"to": "ann"})], id=form) for form, text in FORMS.items()),
    pytest.param(
        '<tool_call>\n{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}\n</tool_call>',
        ADDED,
        id="all-double",
    ),
    pytest.param(
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n"
        "</tool_call>",
        ADDED,
        id="qwen3-coder-with-numbers",
    ),
    pytest.param(
        "<tool_call><function=search><parameter=query>\n1\n</parameter></function></tool_call>",
        [("search", {"query": "1"})],
        id="a-text-that-looks-like-a-number",
    ),
    pytest.param('[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}', ADDED, id="mistral-new"),
    pytest.param('<function=add>{"a": 1, "b": 2}</function>', ADDED, id="llama-function"),
    pytest.param(
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>\n'
        '<tool_call>{"name": "search", "arguments": {"query": "ReAct"}}</tool_call>',
        [*ADDED, *SEARCHED],
        id="two-calls",
    ),
    pytest.param(
        '<think>add?</think><tool_call>{"name": "search", "arguments": {"query": "ReAct"}}</tool_call>',
        SEARCHED,
        id="after-thinking",
    ),
]


@pytest.mark.parametrize(("text", "calls"), CALLS)
def test_a_text_that_is_calls_alone_is_run_where_the_client_says_so(text: str, calls: list[Any]) -> None:
    reply = read(text, usage=Usage(3, 4))
    assert made(reply) == calls
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(3, 4)
    assert reply.content == ""


@pytest.mark.parametrize("line", ["Action 2", "# Action", "Action\uff1a", "**Action**"])
def test_the_marker_of_an_action_is_found_in_every_form_of_it(line: str) -> None:
    marker = line if line.endswith("\uff1a") else f"{line}:"
    assert made(read(f"{marker} search\nAction Input: ReAct")) == SEARCHED


@pytest.mark.parametrize(("text", "calls"), CALLS)
def test_it_is_refused_where_the_client_does_not_run_calls_of_the_text(text: str, calls: list[Any]) -> None:
    reply = read(text, runs_calls=False)
    assert [call.name for call in reply.tool_calls] == [""]
    assert "through the interface for tool calls" in reply.reasoning


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
@pytest.mark.parametrize("runs_calls", [True, False])
def test_with_anything_around_it_it_is_text(around: str, runs_calls: bool) -> None:
    for call in CALLS:
        text = around.format(str(call.values[0]).removeprefix("<think>add?</think>"))
        reply = read(text, runs_calls=runs_calls)
        assert reply.tool_calls == (), text
        assert "<|channel|>" in text or reply.content == text


WEATHER = spec("weather", city="string")
CONVERT = spec("convert", value="number", unit="string", to="string")
# What qwen2.5-coder-0.5b said to llama.cpp's own server, offered add, weather and convert; it recognised no call.
RECORDED = [
    ("What is 17 plus 25?", '{"name": "add", "arguments": {"a": 17, "b": 25}}', "add"),
    ("How is the weather in Paris?", '{"name": "weather", "arguments": {"city": "Paris"}}', "weather"),
    ("Add 3 and 9.", '{"name": "add", "arguments": {"a": 3, "b": 9}}', "add"),
    (
        "Is it raining in Oslo today?",
        '{"name": "weather", "arguments": {"city": "Oslo", "to": "temperature"}}',
        "weather",
    ),
    (
        "Convert 10 feet to meters.",
        '{"name": "convert", "arguments": {"value": 10, "unit": "feet", "to": "meters"}}',
        "convert",
    ),
    ("What is 1.5 + 2.25?", '{"name": "add", "arguments": {"a": 1.5, "b": 2.25}}', "add"),
    (
        "Weather in Rome, please.",
        '```json\n{\n  "name": "weather",\n  "arguments": {\n    "city": "Rome"\n  }\n}\n```',
        "weather",
    ),
    ("Say hello.", '{"name": "hello", "arguments": {"message": "Hello, world!"}}', None),
]


@pytest.mark.parametrize(("question", "text", "tool"), RECORDED)
def test_what_a_real_server_left_in_the_text(question: str, text: str, tool: str | None) -> None:
    """A call of an offered tool is one; what names no tool of ours may be an answer in JSON."""
    reply = read(text, (ADD, WEATHER, CONVERT))
    assert [call.name for call in reply.tool_calls] == ([tool] if tool else []), question


def test_names_are_given_back_as_the_tools_have_them() -> None:
    tool = spec("math.add", a="integer")
    reply = LlmResponse('<tool_call>{"name": "math_add", "arguments": {"a": 1}}</tool_call>')
    text = ForeignText([tool], ReasoningStyle(), {"math_add": "math.add"}.__getitem__, runs_calls=True)
    assert made(text.read(reply)) == [("math.add", {"a": 1})]


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        pytest.param("<think>\nhm\n</think>\n\nIt is 4.", "It is 4.", "hm", id="a-block"),
        pytest.param("hm, 4?\n</think>\n\nIt is 4.", "It is 4.", "hm, 4?", id="only-its-end"),
        pytest.param("[THINK]hm[/THINK]It is 4.", "It is 4.", "hm", id="in-brackets"),
        pytest.param("Well.<think>hm</think> It is 4.", "Well. It is 4.", "hm", id="in-the-middle"),
        pytest.param("<think>hm", "", "hm", id="never-ended"),
        pytest.param(
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>It is 4.<|return|>",
            "It is 4.",
            "hm",
            id="harmony",
        ),
        pytest.param("analysishmassistantfinalIt is 4.", "It is 4.", "hm", id="harmony-glued"),
        pytest.param("analysishmAssistantfinalIt is 4.", "It is 4.", "hm", id="harmony-glued-with-a-capital"),
        pytest.param("<think>a</think>b<think>c</think>d", "bd", "a\nc", id="two-blocks"),
    ],
)
@pytest.mark.parametrize("tools", [TOOLS, ()])
def test_reasoning_left_in_the_text_is_reasoning(
    text: str, said: str, thought: str, tools: tuple[ToolSpec, ...]
) -> None:
    reply = read(text, tools)
    assert (reply.content, reply.reasoning, reply.tool_calls) == (said, thought, ())


def test_a_call_rehearsed_in_reasoning_is_not_made() -> None:
    text = '<think><tool_call>{"name": "now", "arguments": {}}</tool_call></think>It is late.'
    reply = read(text)
    assert (reply.content, reply.tool_calls) == ("It is late.", ())


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "add", "arguments": {"a": 1',
        "<tool_call>add one and two</tool_call>",
        '<tool_call>{"name": "add", "description": "Adds.", "parameters": {}}</tool_call>',
        "<function=add><parameter=a>1",
        "<|python_tag|>print(1)",
        "<|channel|>commentary to=functions.add<|message|>{1}<|call|>",
    ],
)
def test_what_cannot_be_read_is_refused_and_never_the_answer(text: str) -> None:
    reply = read(text)
    assert [call.name for call in reply.tool_calls] == [""]
    assert "holds a tool call that cannot be run: " in reply.reasoning


@pytest.mark.parametrize(
    "text",
    [
        "It is 4.",
        "\n  It is 4.\n",
        '{"name": "Ann", "age": 3}',
        '{"name": "dance", "arguments": {}}',
        '{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}',
        "Use `<tool_call>` to call a tool.",
        'For example:\n{"name": "now", "arguments": {}}',
        "Write `<think>` and `</think>` around it.",
        "a < b and [x] {y}",
        "analysis of the data",
        "Action: rest",
        "```python\nprint({'name': 1})\n```",
        "",
    ],
)
def test_an_answer_is_left_as_it_is(text: str) -> None:
    reply = LlmResponse(text)
    assert reader().read(reply) == reply
    assert reader(runs_calls=False).read(reply) == reply


def test_what_is_no_text_is_left_to_the_runtime() -> None:
    reply = LlmResponse(cast("Any", None))
    assert reader().read(reply) is reply


def test_without_tools_there_are_no_calls() -> None:
    text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert read(text, ()).content == text


def test_beside_real_calls_the_text_is_not_searched_for_more() -> None:
    call = ToolCall("1", "now", {})
    text = '<think>hm</think>I look. <tool_call>{"name": "now", "arguments": {}}</tool_call>'
    reply = read(text, tool_calls=(call,))
    assert reply.tool_calls == (call,)
    assert reply.reasoning == "hm"


def test_of_a_reply_that_was_cut_no_call_is_made() -> None:
    text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    reply = read(text, finish_reason="length")
    assert (reply.tool_calls, reply.finish_reason) == ((), "length")


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
        ("Well, <think>hm</think>it is 4.", "Well, it is 4."),
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


PIECES = [
    "<",
    "think>",
    "</",
    "<think>",
    "</think>",
    "[",
    "THINK]",
    "{",
    '"a":',
    "`",
    "```",
    "\n",
    "x",
    " ",
    "<tool",
]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.integers(1, 5))
def test_law_text_without_marks_streams_as_it_is(text: str, size: int) -> None:
    seen, whole = asyncio.run(streamed(text, size))
    if whole.content == text and not whole.tool_calls:
        assert seen == text


REPEATED = [
    *(("", piece) for piece in ("<", "<think>", "[", "{", "<think>a</think>b", "text ", "`", "<tool", "\n")),
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
