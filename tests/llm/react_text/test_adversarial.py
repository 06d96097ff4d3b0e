"""Replies that are easily misread: no call and no answer that was not meant, and what was meant is read.

The table (`data/adversarial.jsonl`) has a reply a line, its dialect, and what it says: a call of one of the tools
below, an answer, or nothing that may be acted on (`refused`).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wesichain.core import LlmRequest, Message, Role, ToolSpec
from wesichain.llm.react_text import TextReAct, parse

TABLE = Path(__file__).with_name("data") / "adversarial.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
READ_ONLY = ("alfworld", "self_ask", "leaked_native")
REFUSED = {"refused": True}


def spec(name: str, required: Sequence[str] = (), *, pure: bool = True, **properties: Any) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": kinds, "required": [*required]}
    return ToolSpec(name, f"Does {name}.", schema, pure=pure)


TOOLS = (
    spec("search", ["query"], query="string"),
    spec("delete_file", ["path"], pure=False, path="string"),
    spec("weather", city="string"),
    spec("add", ["a", "b"], a="integer", b="integer"),
    spec("now"),
)


class Scripted:
    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str:
        return self.reply


def read(row: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a reply. A call of what is no tool is refused by the runtime, with the list of tools."""
    if row["dialect"] in READ_ONLY:
        parsed = parse(row["text"], dialect=row["dialect"])
        if parsed.kind == "final":
            return {"answer": parsed.answer}
        return REFUSED if parsed.kind == "malformed" else {"call": {"name": parsed.tool, "args": parsed.args}}
    llm = TextReAct(Scripted(row["text"]), dialect=row["dialect"])
    reply = asyncio.run(llm.complete(LlmRequest("", (Message(Role.USER, "Do it."),), TOOLS)))
    if not reply.tool_calls:
        return {"answer": reply.content}
    (call,) = reply.tool_calls
    if call.name not in {tool.name for tool in TOOLS}:
        return REFUSED
    return {"call": {"name": call.name, "args": call.args}}


def test_the_table_is_large_and_says_each_thing_once() -> None:
    assert len(ROWS) >= 400
    assert (
        len({(row["dialect"], row["text"]) for row in ROWS}) == len({row["id"] for row in ROWS}) == len(ROWS)
    )
    kinds = Counter(next(iter(row["expect"])) for row in ROWS)
    assert min(kinds["call"], kinds["answer"]) >= 100  # to refuse everything is no way out


@pytest.mark.parametrize("group", sorted({row["group"] for row in ROWS}))
def test_every_reply_is_read_as_it_is_meant(group: str) -> None:
    wrong = {
        row["id"]: (row["why"], found)
        for row in ROWS
        if row["group"] == group and (found := read(row)) != row["expect"]
    }
    assert wrong == {}


def test_a_refusal_says_what_to_write() -> None:
    """The model is told what was wrong and the format, so that its next reply can be better."""
    for row in ROWS:
        if row["expect"] != REFUSED or row["dialect"] in READ_ONLY:
            continue
        llm = TextReAct(Scripted(row["text"]), dialect=row["dialect"])
        reply = asyncio.run(llm.complete(LlmRequest("", (Message(Role.USER, "Do it."),), TOOLS)))
        if not reply.tool_calls[0].name:
            assert "could not be read: " in reply.reasoning
            assert "Write " in reply.reasoning
