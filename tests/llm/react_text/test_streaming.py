"""What is shown of a streamed reply is the beginning of the thought, then of the answer, however it is cut."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws, sampled
from tests.llm.react_text.test_corpus import ROWS
from tests.llm.react_text.test_forms import FORMS, PAY
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk, ToolSpec
from wesichain.llm import LlmTraits, StreamItem
from wesichain.llm.families import FAMILIES, UNKNOWN
from wesichain.llm.react_text import TextReAct, parse
from wesichain.llm.react_text.dialects import find_dialect
from wesichain.llm.react_text.react import Options
from wesichain.llm.react_text.reader import Reader

SECRET = "hush"  # a word of the reasoning, and of nothing else
ADD = (ToolSpec("add", "Adds.", {"type": "object", "properties": {}}),)
ASKED = LlmRequest("", (Message(Role.USER, "1 + 1?"),), ADD)
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=40)


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


class InPieces:
    """A model that writes the same text each time, in these pieces."""

    def __init__(self, pieces: Sequence[str], traits: LlmTraits | None = None) -> None:
        self._pieces = pieces
        self.traits = traits or LlmTraits()

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("".join(self._pieces))

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        for piece in self._pieces:
            yield TextChunk(piece)
        yield LlmResponse("".join(self._pieces))


async def shown(items: AsyncGenerator[StreamItem, None]) -> str:
    return "".join([item.text async for item in items if isinstance(item, TextChunk)])


def live(text: str, sizes: Sequence[int] = (1,), *, dialect: str = "react") -> str:
    reader = Options(find_dialect(dialect).grammar).reader()
    return "".join(map(reader.feed, cut(text, sizes)))


def returned(text: str, *, dialect: str = "react") -> str | None:
    parsed = parse(text, dialect=dialect)
    if parsed.kind == "malformed":
        return None
    return "\n".join(filter(None, [parsed.thought, parsed.answer]))


MARKS = [pair for family in (UNKNOWN, *FAMILIES.values()) for pair in family.thinking]


@pytest.mark.parametrize("marks", dict.fromkeys(MARKS), ids=str)
async def test_nothing_of_a_block_is_shown(marks: tuple[str, str]) -> None:
    inside = f"{SECRET}\nAction: add\nAction Input: {{}}\nFinal Answer: {SECRET}"
    for size in (1, 5, 1000):
        pieces = cut(f"{marks[0]}\n{inside}\n{marks[1]}\nFinal Answer: It is 2.", [size])
        assert await shown(TextReAct(InPieces(pieces)).stream(ASKED)) == "It is 2."


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>analysis<|message|>hush<|end|><|start|>assistant<|channel|>final<|message|>Final Answer: It is 2.",
        "analysishushassistantfinalFinal Answer: It is 2.",
    ],
)
async def test_nothing_of_a_channel_is_shown(text: str) -> None:
    for size in (1, 5, 1000):
        assert await shown(TextReAct(InPieces(cut(text, [size]))).stream(ASKED)) == "It is 2."


async def test_a_block_that_begins_in_the_prompt_is_held_back() -> None:
    text = f"{SECRET}</think>Final Answer: It is 2."
    for traits in (LlmTraits(opens_thinking=True), LlmTraits(family="deepseek-r1")):
        llm = TextReAct(InPieces(cut(text, [1]), traits))
        for _ in range(2):
            assert await shown(llm.stream(ASKED)) == "It is 2."


async def test_of_a_block_that_does_not_end_nothing_is_shown() -> None:
    llm = TextReAct(InPieces(cut(f"{SECRET} and so on", [3]), LlmTraits(opens_thinking=True)))
    items = [item async for item in llm.stream(ASKED)]
    assert [type(item) for item in items] == [LlmResponse]
    assert "never ends" in items[0].reasoning  # type: ignore[union-attr]


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_call_is_shown(form: str) -> None:
    for text, said in [("{}", ""), ("Thought: I pay.\n{}", "I pay."), ("I pay.\n\n{}", "I pay.")]:
        whole = text.replace("{}", FORMS[form])
        assert live(whole) in ("", said), whole
        assert parse(whole, tools=[PAY]).tool == "pay"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<tool>pay</tool><tool_input>{}</tool_input>", ""),
        ("Thought: I pay.\n<tool>pay</tool><tool_input>{}</tool_input>", "I pay."),
        ("Thought: so\n<final_answer>It is 4.</final_answer>", "so\nIt is 4."),
    ],
)
def test_tags_are_not_shown(text: str, said: str) -> None:
    assert live(text, dialect="xml") == said


def test_an_answer_is_shown_as_it_arrives() -> None:
    text = "Thought: I know.\nFinal Answer: It is 4, as <b>you</b> see.\nObservation: is 5."
    reader, seen = Reader(), list[str]()
    for piece in cut(text, [1]):
        seen.append(reader.feed(piece))
    assert sum(map(bool, seen)) > 20
    assert "".join(seen).startswith("I know.\nIt is 4, as <b>you</b> see.")


def test_text_without_a_marker_is_shown_where_it_is_the_answer() -> None:
    reader = Reader(is_strict=False)
    said = [reader.feed(piece) for piece in cut("Well, I know: it depends, as <b>you</b> see.", [3])]
    assert sum(map(bool, said)) > 5
    assert live("Well, I know: it depends.") == ""


@pytest.mark.sampled
@pytest.mark.parametrize("size", sampled([1, 3, 16], 1))
def test_what_is_shown_of_a_corpus_is_the_beginning_of_what_is_returned(size: int) -> None:
    wrong = {}
    for row in (row for rows in ROWS.values() for row in rows if row["text"]):
        whole = returned(row["text"], dialect=row["dialect"])
        seen = live(row["text"], [size], dialect=row["dialect"])
        if whole is not None and not whole.startswith(seen):
            wrong[row["id"]] = (row["text"], seen, whole)
    assert wrong == {}


PIECES = [
    "Thought: ", "Action: add", "Action Input: ", "{}", "Final Answer: ", "Observation:", "\n", "\n", "\n", " ", "hm", "<think>",
    "</think>", "<tool_call>", '{"name": "add", "arguments": {}}', "</tool_call>", "```", "`", "\u201c", "\u201d", "<b>", "</b>", "<doc>", "</doc>",
    "<!--", "-->", "</s>", "**", "[", "{", "a: b",
]  # fmt: skip


@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join), sizes=CUTS)
@draws(60)
def test_law_what_is_shown_is_the_beginning_of_what_is_returned(text: str, sizes: list[int]) -> None:
    whole = returned(text)
    assert whole is None or whole.startswith(live(text, sizes))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "piece", sampled(["<", "<think>a</think>", "`", "text ", "Thought: a\n", "<b>", "\u201c", "[", "{"], 3)
)
def test_time_is_linear_in_a_streamed_reply(piece: str) -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        live("Thought: so\n" + (piece * size)[:size], [16])
        return time.process_time() - started

    for _ in range(4):
        if seconds(40_000) < 9 * max(seconds(10_000), 0.01):
            return
    pytest.fail("time grew faster than the text")
