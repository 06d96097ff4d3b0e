"""Old data opens: recordings replay, outcomes and threads go on, playbooks are read, whatever version wrote them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.golden.programs import KINDS, agent, thread_graph
from tests.learning.kit import words
from wesichain.agent import Approve, Completed, Failed, Interrupted, replay
from wesichain.core import Usage, from_json, to_json
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.learning import Playbook
from wesichain.trace import load

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name[0].isdigit())
OUTCOMES: dict[str, Any] = {"completed": Completed, "failed": Failed, "interrupted": Interrupted}

every_version = pytest.mark.parametrize("golden", VERSIONS, ids=lambda path: str(path.name))


@every_version
@pytest.mark.parametrize("kind", KINDS)
async def test_a_recording_opens_and_replays(golden: Path, kind: str) -> None:
    recording = load(golden / f"{kind}.jsonl")
    assert not recording.problems
    assert recording.run_id == kind
    outcome = await replay(recording, agent(kind))
    assert outcome.events[-1].kind == recording.events[-1].kind
    assert [event.kind for event in outcome.events] == [event.kind for event in recording.events]
    assert outcome.usage.input_tokens == recording.usage.input_tokens > 0


@every_version
@pytest.mark.parametrize("name", [*(f"{kind}-outcome" for kind in KINDS), "approved-after"])
def test_an_outcome_is_read_and_written_again(golden: Path, name: str) -> None:
    text = (golden / f"{name}.json").read_text(encoding="utf-8")
    kind = text.split('"kind":"', 1)[1].split('"', 1)[0]
    outcome = from_json(OUTCOMES[kind], text)
    assert outcome.usage.input_tokens > 0
    assert "Earlier?" in [message.content for message in outcome.messages]
    again = from_json(OUTCOMES[kind], to_json(outcome))
    assert again.messages == outcome.messages
    assert again.usage == outcome.usage


@every_version
async def test_an_outcome_that_waits_goes_on(golden: Path) -> None:
    waiting = from_json(Interrupted, (golden / "approved-outcome.json").read_text(encoding="utf-8"))
    decisions = {one.token: Approve() for one in waiting.pending}
    result = await agent("approved", asked=1).resume(waiting, decisions)
    assert result.output == "Done."
    assert result.usage == Usage(240, 16)


@every_version
async def test_a_thread_goes_on_where_it_waited(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "thread.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((golden / "thread.sql").read_text(encoding="utf-8"))
    saver = SqliteCheckpointer(path)
    graph = thread_graph(saver, asked=2)
    saved = await graph.get_state("golden")
    assert saved.interrupts, "the thread waits for an approval"
    assert "Oslo" in to_json(saved.values)
    ended = await graph.resume("golden", True)
    assert ended["final_output"] == "Told."
    saver.close()


@every_version
def test_a_playbook_is_read(golden: Path, tmp_path: Path) -> None:
    folder = tmp_path / "playbook"
    shutil.copytree(golden / "playbook", folder)
    with Playbook.open(folder, embedder=words()) as book:
        assert {bullet.helpful_count for bullet in book.bullets("weather")} == {4, 6}
        assert book.retrieve("the weather of a city", domain="weather")


def test_an_old_usage_has_no_cached_tokens() -> None:
    assert from_json(Usage, '{"input_tokens":120,"output_tokens":8}') == Usage(120, 8)
