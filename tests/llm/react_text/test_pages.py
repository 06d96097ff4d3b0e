"""Replies that repeat pages say what they say: no mark in a page makes, changes or cuts anything."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.draws import sampled
from tests.llm.react_text.pages import SoundReply, answers, calls, tools
from wesichain.core import LlmResponse
from wesichain.llm.families import FAMILIES, UNKNOWN
from wesichain.llm.react_text import parse
from wesichain.llm.react_text.chat import ChatStream, ChatText
from wesichain.llm.react_text.react import Options

TOOLS = tools()
NAMES = frozenset(tool.name for tool in TOOLS)
CALLS, ANSWERS = list(calls()), list(answers())


def test_there_are_many_and_each_once() -> None:
    assert len({reply.id + reply.text for reply in (*CALLS, *ANSWERS)}) == len(CALLS) + len(ANSWERS) >= 20_000


def outcome(reply: SoundReply) -> str:
    """What becomes of a reply: `sound`, `refused`, or what is wrong."""
    if reply.kind == "chat":
        read = ChatText(TOOLS, FAMILIES.get(reply.family, UNKNOWN)).read(LlmResponse(reply.text))
        if read.tool_calls:
            return "refused" if read.tool_calls[0].name == "" else "call"
        return "sound" if read.content.strip() == reply.answer.strip() else f"answer {read.content!r}"
    parsed = parse(reply.text, tools=TOOLS, family=reply.family)
    if parsed.kind == "malformed":
        return "refused"
    made = [(call.name, call.args) for call in parsed.calls]
    if reply.kind == "call":
        return "sound" if made == [(reply.tool, reply.args)] else f"{parsed.answer or made}"
    return "sound" if parsed.answer == reply.answer.strip() else f"{parsed.answer or made}"


@pytest.mark.sampled
@pytest.mark.parametrize("replies", [sampled(CALLS, 1_500), sampled(ANSWERS, 400)], ids=["calls", "answers"])
def test_every_reply_is_read_as_it_is_meant_or_asked_again(replies: list[SoundReply]) -> None:
    outcomes = {reply.id: outcome(reply) for reply in replies}
    assert {name: said for name, said in outcomes.items() if said not in ("sound", "refused")} == {}


@pytest.mark.sampled
def test_few_calls_are_asked_again_and_only_those_whose_end_is_unsure() -> None:
    refused = [reply for reply in sampled(CALLS, 1_500) if outcome(reply) == "refused"]
    assert [reply.id for reply in refused if not reply.owns_mark] == []


def test_few_answers_are_asked_again() -> None:
    """Those that repeat a closing mark of reasoning with a call behind it, or a whole call of an offered tool."""
    counts = Counter(outcome(reply) for reply in ANSWERS)
    assert counts["refused"] <= 0.03 * (len(CALLS) + len(ANSWERS))


@pytest.mark.sampled
@pytest.mark.parametrize("replies", [sampled(CALLS, 300), sampled(ANSWERS, 200)], ids=["calls", "answers"])
def test_what_is_shown_at_every_byte_is_the_beginning_of_what_is_returned(replies: list[SoundReply]) -> None:
    wrong = {}
    for reply in replies:
        family = FAMILIES.get(reply.family, UNKNOWN)
        if reply.kind == "chat":
            chat = ChatText(TOOLS, family)
            read, stream = chat.read(LlmResponse(reply.text)), ChatStream(chat)
            whole = None if read.tool_calls else read.content
            seen = "".join(map(stream.feed, reply.text))
        else:
            parsed = parse(reply.text, tools=TOOLS, family=reply.family)
            said = "\n".join(filter(None, [parsed.thought, parsed.answer]))
            whole = None if parsed.kind == "malformed" else said
            seen = "".join(map(Options(family=family, tools=NAMES).reader().feed, reply.text))
        if whole is not None and not whole.startswith(seen):
            wrong[reply.id] = (seen, whole)
    assert wrong == {}
