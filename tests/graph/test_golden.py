"""Files of every released format can still be read. To add one: python -m tests.graph.test_golden (never replace one)."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.graph import golden_threads
from tests.graph.kit import stopped
from wesichain.core import FinalAnswer, Message, ReActStep, Role, Thought
from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    Append,
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    Send,
    SetUnion,
    interrupt,
)
from wesichain.graph.checkpoints.fold import FORMAT
from wesichain.graph.sqlite import APPLICATION_ID, VERSION, SqliteCheckpointer

FOLDER = Path(__file__).parent / "golden"


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5


class Golden(TypedDict, total=False):
    log: Annotated[list[str], Append]
    tags: Annotated[set[str], SetUnion]
    when: datetime
    colour: Colour
    points: list[Point]
    steps: list[ReActStep]
    messages: list[Message]
    thing: Any


VALUES: Golden = {
    "when": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "colour": Colour.RED,
    "points": [Point(1), Point(2, 1.5)],
    "steps": [Thought("a"), FinalAnswer("a")],
    "messages": [Message(Role.USER, "hi ü")],
    "thing": {"$odd": (1, b"x", {1, 2}), "plain": [None, True, 1.5]},
}


def graph(store: Checkpointer) -> Graph[Golden]:
    inner = GraphBuilder(Golden).add_node("x", lambda _: {"log": ["x"]})
    inner.add_node("ask", lambda _: {"log": [interrupt({"question": "?"})]}).add_edge("x", "ask").set_entry(
        "x"
    )
    builder = GraphBuilder(Golden).add_node("fill", lambda _: {**VALUES, "log": ["fill"], "tags": {"t"}})
    builder.add_node("work", lambda task: {"log": [f"work {task['i']}"]}).add_node("sub", inner.build())
    builder.add_node("end", lambda _: {"log": ["end"]})
    builder.add_conditional_edges("fill", lambda _: ["sub", Send("work", {"i": 1}), Send("work", {"i": 2})])
    return builder.add_edge(["sub", "work"], "end").set_entry("fill").build(store)


async def fill(path: Path) -> None:
    store = SqliteCheckpointer(path)
    await stopped(graph(store).invoke({"log": ["in"]}, ExecutionOptions(thread_id="waits", run_id="r")))
    await stopped(graph(store).invoke({"log": ["in"]}, ExecutionOptions(thread_id="ended", run_id="r")))
    await graph(store).resume("ended", "yes")
    store.close()


@pytest.mark.parametrize("golden", sorted(FOLDER.glob("sqlite_v*.sql")), ids=lambda path: str(path.stem))
async def test_a_file_of_an_older_version_still_opens(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(golden.read_text(encoding="utf-8"))
    store = SqliteCheckpointer(path)
    restored = graph(store)
    ended = (await restored.get_state("ended")).values
    assert ended == {**VALUES, "log": ["in", "fill", "x", "yes", "work 1", "work 2", "end"], "tags": {"t"}}
    saved = await restored.get_state("waits")
    assert saved.values["log"] == ["in", "fill", "work 1", "work 2"]
    assert [(one.value, one.scope) for one in saved.interrupts] == [({"question": "?"}, "sub")]
    assert [one.step for one in await restored.history("ended")] == [3, 2, 1, 0][
        -len(await restored.history("ended")) :
    ]
    assert await restored.resume("waits", "yes") == ended
    store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_there_is_a_golden_file_of_this_version() -> None:
    assert (FOLDER / f"sqlite_v{VERSION}.sql").is_file()


@pytest.mark.parametrize("thread", ["fresh", "half"])
@pytest.mark.parametrize(
    "golden", sorted(FOLDER.glob("threads_format*.sql")), ids=lambda path: str(path.stem)
)
async def test_threads_of_every_format_go_on_where_they_were(
    golden: Path, thread: str, tmp_path: Path
) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(golden.read_text(encoding="utf-8"))
    store = SqliteCheckpointer(path)
    graph = golden_threads.build(store)
    saved = await graph.get_state(thread)
    assert (saved.values["either"], saved.values["several"]) == ("text", {"a": 1})
    answers = {"q0": "a0", "q1": "a1", "q2": "a2", "inside": "deep"}
    questions = saved.interrupts
    while True:
        try:
            done = await graph.resume(thread, {asked.id: answers[asked.value] for asked in questions})
        except GraphInterruptedError as stop:
            questions = stop.interrupts
        else:
            break
    whole = ["in", "quick", "way", "a0", "a1", "a2", "x", "deep", "work 1", "both", "last"]
    assert done["log"] == whole
    store.close()


def test_there_is_a_golden_file_of_this_format() -> None:
    assert (FOLDER / f"threads_format{FORMAT}.sql").is_file()


def make() -> None:
    path = FOLDER / "new.db"
    asyncio.run(fill(path))
    with closing(sqlite3.connect(path)) as db:
        lines = [
            *db.iterdump(),
            f"PRAGMA application_id = {APPLICATION_ID};",
            f"PRAGMA user_version = {VERSION};",
        ]
    path.unlink()
    target = FOLDER / f"sqlite_v{VERSION}.sql"
    if target.exists():
        sys.exit(f"{target.name} is there already, and a released format does not change")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()
