"""Durable databases of released versions: read, continued, or refused by name with nothing changed."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.golden.durable_program import TASKS, durable
from wesichain.agent import Approve, Interrupted
from wesichain.durable import DurableRuns, RunState
from wesichain.errors import DurableError, RunFailedError

GOLDEN = Path(__file__).parent
READ = ("0.2.0/durable.sql", "0.2.0/durable-first.sql")  # the second is of the day on which 0.2.0 was named
every_database = pytest.mark.parametrize("dump", READ)


def opened(folder: Path, dump: str) -> str:
    with closing(sqlite3.connect(folder / "runs.db")) as database:
        database.executescript((GOLDEN / dump).read_text(encoding="utf-8"))
    return f"sqlite:///{folder}/runs.db"


@every_database
async def test_every_run_of_an_old_database_is_listed_with_its_state(dump: str, tmp_path: Path) -> None:
    async with DurableRuns(opened(tmp_path, dump)) as runs:
        assert {run.run_id: run.status for run in await runs.list()} == {
            "finished": RunState.COMPLETED,
            "failed": RunState.FAILED,
            "waiting": RunState.INTERRUPTED,
            "approved": RunState.PENDING,
            "queued": RunState.PENDING,
            "interrupted": RunState.RUNNING,  # by a process that is dead
            "cancelled": RunState.CANCELLED,
        }
        assert [(item.run_id, item.call.name) for item in await runs.pending()] == [("waiting", "send")]
        failed = await runs.show("failed")
        assert failed.error is not None
        assert "no more of this" in failed.error
        assert [event.kind async for event in runs.events("finished")][-1] == "run_completed"


@every_database
async def test_the_runs_of_an_old_database_go_on_and_end(dump: str, tmp_path: Path) -> None:
    async with durable(opened(tmp_path, dump), on_change="adopt", lease=1.0) as runs:
        again = await runs.run(TASKS["finished"], run_id="finished")
        assert (again.output, again.usage.input_tokens) == ("Done with look.", 200)
        with pytest.raises(RunFailedError, match="no more of this"):
            await runs.run(TASKS["failed"], run_id="failed")
        for run_id in ("queued", "approved", "interrupted"):
            result = await runs.result(run_id, timeout=60)
            assert result.output == f"Done with {TASKS[run_id]}."
        waiting = await runs.outcome("waiting")
        assert isinstance(waiting, Interrupted)
        await runs.approve("waiting", waiting.pending[0].token, Approve())
        assert (await runs.result("waiting", timeout=60)).output == "Done with send."
        with pytest.raises(DurableError, match="waits for the token"):
            await runs.approve("cancelled", waiting.pending[0].token, Approve())


async def test_a_run_of_another_program_waits_and_says_so(tmp_path: Path) -> None:
    other = durable(opened(tmp_path, READ[0]), version="another", lease=1.0)
    async with other as runs:
        serving = asyncio.ensure_future(runs.run("look", run_id="new"))
        assert (await serving).output == "Done with look."
        while (status := await runs.status("queued")).served:  # the dead worker's lease is not found out yet
            await asyncio.sleep(0.05)
        assert status == RunState.PENDING
        assert status.version != "another"


def test_a_database_of_0_1_is_refused_by_name_and_not_touched(tmp_path: Path) -> None:
    url = opened(tmp_path, "0.1.0/durable.sql")
    before = hashlib.sha256((tmp_path / "runs.db").read_bytes()).hexdigest()

    async def ask() -> None:
        with pytest.raises(DurableError, match=r"wesichain 0\.1.*nothing was changed"):
            await DurableRuns(url).list()
        with pytest.raises(DurableError, match=r"wesichain 0\.1"):
            await durable(url).run("look", run_id="finished")
        with pytest.raises(DurableError, match=r"wesichain 0\.1"):
            await durable(url).enqueue("look")

    asyncio.run(ask())
    assert hashlib.sha256((tmp_path / "runs.db").read_bytes()).hexdigest() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.db"]


async def test_a_database_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    url = opened(tmp_path, READ[0])
    await DurableRuns(url).list()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database:
        [(number,)] = database.execute("SELECT number FROM wesichain_format WHERE store = 'durable'")
        database.execute("UPDATE wesichain_format SET number = 99")
        database.commit()
    assert number >= 2
    with pytest.raises(DurableError, match=r"newer wesichain.*99"):
        await DurableRuns(url).list()
