"""What is streamed holds nothing of a model's reasoning, however the text is cut into pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.draws import draws, sampled
from tests.llm.react_text.test_corpus import ROWS
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk, ToolSpec
from wesichain.llm import StreamItem
from wesichain.llm.foreign_text import ForeignText
from wesichain.llm.react_text import TextReAct, parse
from wesichain.llm.react_text.reasoning import (
    MARK,
    ReasonedText,
    ReasoningFilter,
    ReasoningStyle,
    split_reasoning,
)

SECRET = "hush"  # a word of the reasoning, and of nothing else
OPENED = [
    ("<think>", "</think>"), ("<think>\n", "\n</think>\n\n"), ("<thinking>", "</thinking>"),
    ("<THINK>", "</THINK>"), ("<reasoning>", "</reasoning >"), ("<think effort='high'>", "</think>"),
    ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<\uff5cbegin\u2581of\u2581thinking\uff5c>", "<\uff5cend\u2581of\u2581thinking\uff5c>"),
    ("<think>a <think>b</think> ", "</think>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>commentary to=functions.add <|constrain|>json<|message|>", "<|call|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
]  # fmt: skip
BARE = ["</think>", "</thinking>", "[/THINK]", "<|END_THINKING|>", "</reasoning>", "\u25c1/think\u25b7"]
SAYABLE = [
    *"<>[]`\"'{}: \n",
    "say",
    "Thought:",
    "Final Answer:",
    "<b>",
    "</b>",
    "[1]",
    "a < b",
    "think",
    "|>",
]
WORDS = (
    st.lists(st.sampled_from(SAYABLE), max_size=12)
    .map("".join)
    .filter(lambda text: MARK.search(text) is None)
)
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=40)


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def passed_on(pieces: Sequence[str], style: ReasoningStyle | None = None) -> str:
    text = ReasoningFilter(style or ReasoningStyle())
    return "".join(map(text.feed, pieces)) + text.end()


class InPieces:
    """A model that writes the same text each time, in these pieces."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("".join(self._pieces))

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        for piece in self._pieces:
            yield TextChunk(piece)
        yield LlmResponse("".join(self._pieces))


async def shown(items: AsyncGenerator[StreamItem, None]) -> str:
    return "".join([item.text async for item in items if isinstance(item, TextChunk)])


@given(marks=st.sampled_from(OPENED), before=WORDS, inside=WORDS, after=WORDS, sizes=CUTS)
@example(marks=("<think>", "</think>"), before="`", inside="", after="", sizes=[1])
def test_nothing_of_a_block_is_passed_on(
    marks: tuple[str, str], before: str, inside: str, after: str, sizes: list[int]
) -> None:
    if marks[0] == "analysis" or marks[0].startswith("<|channel"):
        before = ""  # these begin a reply
    opened, closed = marks
    text = f"{before} {opened} {SECRET}{inside}{SECRET} {closed} {after}".lstrip()
    said = passed_on(cut(text, sizes))
    assert SECRET not in said
    assert said == passed_on([text]), "the cuts make no difference"


@given(text=WORDS, sizes=CUTS)
def test_what_has_no_block_is_passed_on_whole(text: str, sizes: list[int]) -> None:
    assert passed_on(cut(text, sizes)) == text


MARKS = [
    *(mark for marks in OPENED for mark in marks), "<|start|>assistant", "<|end|>", "<|call|>",
    "<|message|>", "assistantcommentary to=functions.add json", "{}", "hm", "\n", " ", "`", '"', "<", "x",
]  # fmt: skip


@given(text=st.lists(st.sampled_from(MARKS), max_size=9).map("".join), sizes=CUTS)
@draws(50)
def test_the_cuts_decide_only_what_was_passed_on_before_its_end_was_known(
    text: str, sizes: list[int]
) -> None:
    whole = passed_on([text])
    assert not whole or passed_on(cut(text, sizes)).endswith(whole)


@given(closed=st.sampled_from(BARE), inside=WORDS, after=WORDS, sizes=CUTS)
def test_from_the_second_reply_on_a_block_that_begins_in_the_prompt_is_hidden_too(
    closed: str, inside: str, after: str, sizes: list[int]
) -> None:
    style = ReasoningStyle()
    text = f"{inside} {SECRET} {closed}{after}"
    passed_on([text], style)
    assert style.opens_in_prompt
    assert SECRET not in passed_on(cut(text, sizes), style)
    assert passed_on(cut(after, sizes), style) == after, "a reply without thinking comes at its end"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Use <think> here.", "Use <think> here."),
        ("The tag `<think>` opens, `</think>` closes.", "The tag `<think>` opens, `</think>` closes."),
        ("<think>never ends", ""),
        ("Use <think>, <think> and so on.", "Use <think>, <think> and so on."),
        ("analysis of the data: fine", "analysis of the data: fine"),
        ("analysis of <think> blocks", "analysis of <think> blocks"),
        ("analysis<think> blocks", "analysis<think> blocks"),
        ("analysis<think>hm</think> fine", " fine"),
        (
            "analysis<|channel|>final<|message|>It is 4.",
            "analysis<|channel|>final<|message|>It is 4.",
        ),
        ("<think>a</think>Yes <think>b</think>No", "Yes No"),
        ("It is 4.<|end|>", "It is 4."),
        ("<think>a <think>b</think>It is 4.", "It is 4."),
        ("<think>a <think>b</think>It is 4. Use <think>.", "It is 4. Use <think>."),
        (
            "<|channel|>final<|message|>It is 4.<|end|><|start|>user<|channel|>final<|message|>Why?",
            "It is 4.",
        ),
        ("<|channel|>final<|message|>It is 4.<|end|> so", "It is 4."),
        ("<|channel|>final<|message|>Use <think> here.<|end|>", "Use <think> here."),
        ("<|channel|>final<|message|><think>never ends<|end|>", ""),
        ("<|channel|>final<|message|><think>a <think>b</think>It is 4.<|end|>", "It is 4."),
    ],
)
def test_what_is_no_block_is_said(text: str, said: str) -> None:
    assert [passed_on(cut(text, [size])) for size in (1, 3, 100)] == [said] * 3


def test_text_in_a_block_that_was_closed_is_no_reasoning() -> None:
    text = "<|channel|>final<|message|><think>a <think>b</think>It is 4.<|end|>"
    assert split_reasoning(text) == ReasonedText("It is 4.", "a b", is_final=True)


def test_a_model_that_opens_its_blocks_itself_this_time_is_heard_all_the_same() -> None:
    text = f"Well, <think>{SECRET}</think>it is 4."
    assert passed_on(cut(text, [3]), ReasoningStyle(opens_in_prompt=True)) == "Well, it is 4."


def test_of_two_final_messages_the_last_counts() -> None:
    final = "<|start|>assistant<|channel|>final<|message|>"
    parsed = parse(f"{final}Final Answer: 3<|end|>{final}Final Answer: 4<|return|>")
    assert (parsed.answer, parse(f"{final}It is 4.<|end|> Or 5.").answer) == ("4", "It is 4.")


TOOLS = (ToolSpec("add", "Adds.", {"type": "object", "properties": {}}),)
ASKED = LlmRequest("", (Message(Role.USER, "1 + 1?"),), TOOLS)


@pytest.mark.parametrize("marks", OPENED, ids=lambda marks: marks[0].strip())
async def test_streams_of_text_and_of_native_models_hide_it_alike(marks: tuple[str, str]) -> None:
    inside = f"{SECRET}\nAction: add\nAction Input: {{}}\nFinal Answer: {SECRET}"
    for size in (1, 5, 1000):
        pieces = cut(f"{marks[0]}{inside}{marks[1]}Final Answer: It is 2.", [size])
        assert (await shown(TextReAct(InPieces(pieces)).stream(ASKED))).strip() == "It is 2."
        native = await shown(ForeignText(TOOLS, ReasoningStyle()).stream(InPieces(pieces).stream(ASKED)))
        assert native.strip() == "Final Answer: It is 2."


async def test_a_client_learns_that_its_model_thinks_first() -> None:
    pieces = cut(f"{SECRET}, I think.</think>Final Answer: It is 2.", [3])
    llm = TextReAct(InPieces(pieces))
    await shown(llm.stream(ASKED))
    assert (await shown(llm.stream(ASKED))).strip() == "It is 2."


def test_a_long_reply_is_heard_in_linear_time() -> None:
    for text in ("<" * 50_000, "[THINK" * 10_000, "analysis" * 6_000, "<think>" * 7_000, "`<think>" * 6_000):
        passed_on(cut(text, [50]))


@pytest.mark.parametrize(
    "text",
    [
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>',
        "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
        '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
        '{"name": "add", "arguments": {"a": 1}}',
        "Action: add\nAction Input: {}",
    ],
)
async def test_nothing_of_a_call_is_streamed(text: str) -> None:
    for size in (1, 4, 1000):
        items = InPieces(cut(text, [size])).stream(ASKED)
        assert await shown(ForeignText(TOOLS, ReasoningStyle(), runs_calls=True).stream(items)) == ""


@pytest.mark.sampled
@pytest.mark.parametrize("size", sampled([1, 3, 16], 1))
def test_a_reply_of_the_corpora_is_passed_on_in_pieces_as_it_is_at_once(size: int) -> None:
    """Where a model is known to begin its thoughts in the prompt; a second end of them comes too late."""

    def said(text: str, size: int) -> str:
        return passed_on(cut(text, [size]), ReasoningStyle(opens_in_prompt=True))

    rows = [row for rows in ROWS.values() for row in rows if row["text"]]
    assert [row["id"] for row in rows if said(row["text"], size) != said(row["text"], len(row["text"]))] == [
        "reasoning-051"
    ]
