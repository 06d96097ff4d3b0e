"""SIGKILL between and inside super-steps: the run is resumed to the same end, and what was done stays done."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tests.conftest import ROOT
from tests.graph.killed_run import Log, build, open_store
from tests.warm import python
from wesichain.graph import Graph
from wesichain.testing import Faults, Scenario, Trace, simulate_sync

END = ["in", "a", "b", "c", "x", "y", "d"]
NODES = ["a", "b", "c", "x", "y", "d"]

# Where the process dies, and the nodes whose effect may then be seen twice: they had begun, and nobody
# could know that they had finished.
POINTS = [("before:a", ()), *((f"in:{name}", (name,)) for name in NODES)]


def cases(points: Sequence[tuple[str, tuple[str, ...]]]) -> list[object]:
    return [pytest.param(point, twice, id=point.replace(":", "-")) for point, twice in points]


async def kill_and_resume(where: str, effects: Path, point: str, twice: tuple[str, ...]) -> None:
    command = [*python(), "-m", "tests.graph.killed_run", where, str(effects), point]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr
    before = Counter(effects.read_text().split()) if effects.exists() else Counter[str]()
    graph = build(open_store(where), effects)
    try:
        await check_resumed(graph, effects, before, twice)
    finally:
        close = graph.checkpointer.close()  # type: ignore[union-attr]
        if close is not None:
            await close


async def check_resumed(
    graph: Graph[Log], effects: Path, before: Counter[str], twice: tuple[str, ...]
) -> None:
    known = {task.node for task in (await graph.get_state("t")).tasks if task.status == "done"}
    assert (await graph.resume("t"))["log"] == END
    after = Counter(effects.read_text().split())
    assert set(after) == set(NODES)
    for name in NODES:
        assert after[name] <= 2
        if name not in twice or name in known:
            assert after[name] == 1, (name, before, after)
    assert (await graph.resume("t"))["log"] == END
    assert Counter(effects.read_text().split()) == after


@pytest.mark.parametrize(("point", "twice"), cases(POINTS))
async def test_a_killed_run_on_sqlite(tmp_path: Path, point: str, twice: tuple[str, ...]) -> None:
    await kill_and_resume(str(tmp_path / "t.db"), tmp_path / "effects", point, twice)


def test_a_run_that_dies_anywhere_on_sqlite(tmp_path: Path) -> None:
    """Simulated: up to two processes die at events, and before or after writes of the file."""
    folders = iter(tmp_path / str(number) for number in range(1_000))

    class Run:
        def __init__(self) -> None:
            self.folder = next(folders)
            self.folder.mkdir()
            self.store = open_store(str(self.folder / "t.db"))

    def ends_as_if_nothing_had_happened(trace: Trace) -> None:
        assert trace.outcome.values == {"log": END}
        done = Counter((trace.world.folder / "effects").read_text().split())
        assert {*done} == {*NODES}
        crashes = trace.processes - 1
        assert done.total() <= len(NODES) + 2 * crashes, "two nodes at most were under way"

    def make(run: Run) -> Graph[Log]:
        return build(run.store, run.folder / "effects")

    scenario = Scenario(make, {"log": ["in"]}, world=Run, invariants=[ends_as_if_nothing_had_happened])
    report = simulate_sync(scenario, seeds=range(120), faults=Faults.none(crash=0.1))
    assert report.ok, str(report)


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")


@pytest.mark.parametrize(("point", "twice"), cases(POINTS[2:4]))
async def test_a_killed_run_on_postgres(
    postgres: str, tmp_path: Path, point: str, twice: tuple[str, ...]
) -> None:
    forget(postgres)
    await kill_and_resume(postgres, tmp_path / "effects", point, twice)
