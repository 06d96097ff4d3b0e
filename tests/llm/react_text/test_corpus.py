"""Corpora of replies: what each one says, for tools with and without effects.

`corpus.jsonl` and `adversarial.jsonl` have one reply a line: its dialect and what it is to the run: calls, an
answer, or nothing that may be acted on (`refused`). `says` has the words that are read beside that: the thought,
the remark around a call, and the reason of a refusal. The first file names the public parser or report whose form a
reply takes (`own` where it has none); the second has replies that are easily misread.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.llm.react_text.test_adapter import Scripted
from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolSpec
from wesichain.llm.react_text import TextReAct, parse
from wesichain.llm.react_text.dialects import find_dialect

READ_ONLY = ("alfworld", "self_ask")
ROWS: dict[str, list[dict[str, Any]]] = {
    name: [
        json.loads(line)
        for line in Path(__file__).with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for name in ("corpus", "adversarial")
}


@pytest.mark.parametrize(("name", "least"), [("corpus", 300), ("adversarial", 400)])
def test_a_corpus_is_large_says_each_thing_once_and_does_not_only_refuse(name: str, least: int) -> None:
    rows = ROWS[name]
    kinds = Counter(kind for row in rows for kind in row["expect"])
    assert (
        len({(row["dialect"], row["text"]) for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    )
    assert len(rows) >= least
    assert min(kinds["calls"], kinds["answer"]) >= len(rows) / 10  # to refuse everything is no way out


def spec(name: str, effect: str, required: Sequence[str] = (), **properties: str) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": kinds, "required": [*required]}
    return ToolSpec(name, f"Does {name}.", schema, pure=effect == "pure")


TOOLS = (
    spec("search", "pure", ["query"], query="string"),
    spec("weather", "pure", city="string"),
    spec("add", "pure", ["a", "b"], a="integer", b="integer"),
    spec("now", "pure"),
    spec("delete_file", "once", ["path"], path="string"),
    spec("pay", "once", ["to", "amount"], to="string", amount="number"),
    spec("note", "idempotent", ["text"], text="string"),
    spec("run_sql", "idempotent", ["query"], query="string"),
)


def reply_of(row: dict[str, Any]) -> LlmResponse:
    llm = TextReAct(Scripted(row["text"]), dialect=row["dialect"])
    return asyncio.run(llm.complete(LlmRequest("", (Message(Role.USER, "Do it."),), TOOLS)))


def read(row: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a reply; a call of what is no tool is refused by the runtime."""
    if row["dialect"] in READ_ONLY:
        parsed = parse(row["text"], dialect=row["dialect"])
        made = [{"name": parsed.tool, "args": parsed.args}]
        says: dict[str, dict[str, Any]] = {
            "action": {"calls": made},
            "final": {"answer": parsed.answer},
            "malformed": {"refused": True},
        }
        return says[parsed.kind]
    reply = reply_of(row)
    if not reply.tool_calls:
        return {"answer": reply.content}
    if any(call.name not in {tool.name for tool in TOOLS} for call in reply.tool_calls):
        return {"refused": True}
    return {"calls": [{"name": call.name, "args": call.args} for call in reply.tool_calls]}


@pytest.mark.parametrize(
    ("name", "group"), sorted({(name, row["group"]) for name, rows in ROWS.items() for row in rows})
)
def test_every_reply_is_read_as_it_is_meant(name: str, group: str) -> None:
    rows = [row for row in ROWS[name] if row["group"] == group]
    assert {row["id"]: (row["why"], found) for row in rows if (found := read(row)) != row["expect"]} == {}


@pytest.mark.parametrize("name", ROWS)
def test_every_reply_says_the_same_words_as_before(name: str) -> None:
    """A change of what is read beside a call, or of the reason that a model is given, is seen here."""
    changed = {row["id"]: (row["says"], said) for row in ROWS[name] if (said := words(row)) != row["says"]}
    assert changed == {}


def words(row: dict[str, Any]) -> dict[str, str]:
    parsed = parse(row["text"], dialect=row["dialect"], tools=TOOLS)
    said = {"thought": parsed.thought, "remark": parsed.remark, "reason": parsed.reason}
    return {name: text for name, text in said.items() if text}


def test_a_refusal_says_what_was_wrong_and_what_to_write() -> None:
    for row in ROWS["adversarial"]:
        if "reason" in row["says"] and row["dialect"] not in READ_ONLY:
            hint = find_dialect(row["dialect"]).hint
            said = f"Your reply could not be read: {row['says']['reason']}. {hint}"
            assert reply_of(row).reasoning == said


BEHIND = [
    *("\nWait, no.", " (dry run)", "\nThought: no", "\nFinal Answer: no", "\n\n---\nno", "\nassistant: no", "\u2028no"),
    *("<think>no</think>", "</think>no", "\n```\nno\n```", "\n<!-- no -->", "\n<note>no</note>", "</s>no"),
    "<|im_end|>\n<|im_start|>assistant\nWait, no.",
    "<|start|>assistant<|channel|>analysis<|message|>Wait, no.<|end|>",
    "<|start|>assistant<|channel|>final<|message|>No.<|return|>",
]  # fmt: skip


def test_no_call_with_effects_is_made_with_anything_behind_it() -> None:
    """In any form; the rest of a line is part of a bare text, and what follows a made-up result is put aside."""
    effects = {tool.name for tool in TOOLS if not tool.pure}
    asides = ("bservation", "<tool_response>", "<|start|>functions")
    tried = 0
    for row in (row for rows in ROWS.values() for row in rows):
        calls = parse(row["text"], dialect=row["dialect"], tools=TOOLS).calls
        if {call.name for call in calls} & effects and not any(aside in row["text"] for aside in asides):
            tried += 1
            for behind in BEHIND:
                read = parse(row["text"] + behind, dialect=row["dialect"], tools=TOOLS)
                is_bare = any(call.is_bare for call in read.calls)
                assert read.kind != "action" or is_bare, (row["id"], behind)
    assert tried > 80
