"""What the tests of this room share: an embedder of words, outputs made from a list of calls."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from wesichain.learning import (
    Feedback,
    FunctionEmbedder,
    GroundedReflector,
    Playbook,
    PlaybookBullet,
    ReasoningStep,
    Reflection,
    TaskInput,
    TaskOutput,
    ToolCallingStrategy,
    ToolInvocation,
)
from wesichain.learning.embedders import Vectors
from wesichain.learning.storage.domain import Domain

SIZE = 64


def _rows(texts: list[str]) -> Vectors:
    """Texts that share words are alike; made of nothing but the words, so always the same."""
    rows = np.zeros((len(texts), SIZE), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            rows[row, zlib.crc32(word.strip("?!.,").encode()) % SIZE] += 1
    return rows


def words() -> FunctionEmbedder:
    return FunctionEmbedder("words", SIZE, function=_rows)


def strategy(
    about: str, *tools: str, helpful: int = 3, harmful: int = 0, id: str = "", **more: object
) -> ToolCallingStrategy:
    fields: dict[str, object] = {
        "helpful_count": helpful,
        "harmful_count": harmful,
        "example_task": about,
        "tool_sequence": tools or ("look", "tell"),
        **more,
    }
    return ToolCallingStrategy(id, f"For {about} call {', then '.join(tools)}.", **fields)  # type: ignore[arg-type]  # a table of fields


def note(text: str, *, id: str = "", helpful: int = 0, harmful: int = 0) -> PlaybookBullet:
    return PlaybookBullet(id, text, helpful_count=helpful, harmful_count=harmful)


def run_of(task_id: str, *calls: str, answer: str = "done", error: str = "") -> TaskOutput:
    """The output of a run: a name is a call that went well, `!name` one that failed."""
    steps: list[ReasoningStep] = []
    for number, call in enumerate(calls, 1):
        name, success = call.removeprefix("!"), not call.startswith("!")
        made = ToolInvocation(name, {}, "ok" if success else None, success, None if success else "it broke")
        steps.append(ReasoningStep(number, f"Call {name}.", "call_tool", name, {}, "ok", invocations=(made,)))
    steps.append(ReasoningStep(len(steps) + 1, "That is all.", "finish", observation=answer))
    used = tuple(dict.fromkeys(call.removeprefix("!") for call in calls))
    metadata = {"error": error} if error else {}
    return TaskOutput(
        task_id,
        answer,
        metadata=metadata,
        structured_trace=tuple(steps),
        tools_used=used,
        total_iterations=len(steps),
    )


def reflect(
    description: str, *calls: str, task_id: str = "t1", domain: str = "shop", good: bool | None = True
) -> Reflection:
    task = TaskInput(task_id, description, domain=domain)
    return GroundedReflector().reflect(task, run_of(task_id, *calls), Feedback(label=good))


def ids(bullets: Sequence[PlaybookBullet]) -> list[str]:
    return [bullet.id for bullet in bullets]


def compact(book: Playbook, monkeypatch: pytest.MonkeyPatch) -> str:
    """Record something after which the log counts as long, and return its id."""
    with monkeypatch.context() as patched:
        patched.setattr(Domain, "is_long", lambda _: True)
        return book.record(note(f"Note {len(book.bullets('shop'))}."), domain="shop").id
