"""The corpus of replies: what each one says, for tools with and without effects.

`corpus.jsonl` has one reply a line: its dialect, the public parser or report whose form it takes (`own` where
it has none), and what it says: calls, an answer, or nothing that may be acted on (`refused`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wesichain.core import LlmRequest, Message, Role, ToolSpec
from wesichain.llm.react_text import TextReAct, parse

READ_ONLY = ("alfworld", "self_ask")
ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("corpus.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_the_corpus_is_large_and_at_least_half_of_it_is_sound() -> None:
    sound = [row for row in ROWS if "refused" not in row["expect"]]
    derived = [row for row in ROWS if row["form"] != "own"]
    assert len(ROWS) >= 300
    assert len({(row["dialect"], row["text"]) for row in ROWS}) == len(ROWS)
    assert min(len(sound), len(derived)) >= len(ROWS) / 2


def spec(name: str, effect: str, required: Sequence[str] = (), **properties: str) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": kinds, "required": [*required]}
    return ToolSpec(name, f"Does {name}.", schema, pure=effect == "pure")


TOOLS = (
    spec("search", "pure", ["query"], query="string"),
    spec("weather", "pure", ["city"], city="string"),
    spec("add", "pure", ["a", "b"], a="integer", b="integer"),
    spec("now", "pure"),
    spec("delete_file", "once", ["path"], path="string"),
    spec("pay", "once", ["to", "amount"], to="string", amount="number"),
    spec("note", "idempotent", ["text"], text="string"),
    spec("run_sql", "idempotent", ["query"], query="string"),
)


class Scripted:
    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str:
        return self.reply


def read(row: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a reply; a call of what is no tool is refused by the runtime."""
    if row["dialect"] in READ_ONLY:
        parsed = parse(row["text"], dialect=row["dialect"])
        made = [{"name": parsed.tool, "args": parsed.args}]
        return {"answer": parsed.answer} if parsed.kind == "final" else {"calls": made}
    llm = TextReAct(Scripted(row["text"]), dialect=row["dialect"])
    reply = asyncio.run(llm.complete(LlmRequest("", (Message(Role.USER, "Do it."),), TOOLS)))
    if not reply.tool_calls:
        return {"answer": reply.content}
    if any(call.name not in {tool.name for tool in TOOLS} for call in reply.tool_calls):
        return {"refused": True}
    return {"calls": [{"name": call.name, "args": call.args} for call in reply.tool_calls]}


@pytest.mark.parametrize("group", sorted({row["group"] for row in ROWS}))
def test_every_reply_is_read_as_the_law_demands(group: str) -> None:
    wrong = {
        row["id"]: (row["why"], found)
        for row in ROWS
        if row["group"] == group and (found := read(row)) != row["expect"]
    }
    assert wrong == {}
