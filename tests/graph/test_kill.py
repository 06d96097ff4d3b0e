"""SIGKILL between and inside super-steps: the run is resumed to the same end, and no finished node runs again."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.conftest import ROOT
from tests.graph.killed_run import Log, build, open_store
from tests.warm import python
from wesichain.graph import Graph

END = ["in", "a", "b", "c", "x", "y", "d"]
NODES = ["a", "b", "c", "x", "y", "d"]

# Where the process dies, and the nodes whose effect may then occur twice: they had started, and it is not
# known whether they had finished.
QUICK = [
    ("before:a", ()),
    ("in:b", ("b",)),
    ("appended:3", ()),
    ("append:4", ("b",)),
    ("in:y", ("y",)),
    ("append:8", ("d",)),
]
FULL = [
    *[(f"before:{name}", ()) for name in NODES if name != "a"],
    *[(f"in:{name}", (name,)) for name in ("a", "c", "x", "d")],
    *[(f"append:{n}", tuple(NODES)) for n in (1, 2, 3, 5, 6, 7)],
    *[(f"appended:{n}", ()) for n in (1, 2, 4, 5, 6, 7)],
]


def cases(points: list[tuple[str, tuple[str, ...]]]) -> list[object]:
    return [pytest.param(point, twice, id=point.replace(":", "-")) for point, twice in points]


async def kill_and_resume(where: str, effects: Path, point: str, twice: tuple[str, ...]) -> None:
    command = [*python(), "-m", "tests.graph.killed_run", where, str(effects), point]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr
    before = Counter(effects.read_text().split()) if effects.exists() else Counter[str]()
    graph = build(open_store(where), effects)
    try:
        if point == "append:1":  # it died before the run was stored
            assert await graph.history("t") == []
        else:
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


@pytest.mark.parametrize(("point", "twice"), cases(QUICK))
async def test_a_killed_run_on_sqlite(tmp_path: Path, point: str, twice: tuple[str, ...]) -> None:
    await kill_and_resume(str(tmp_path / "t.db"), tmp_path / "effects", point, twice)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "twice"), cases(FULL))
async def test_a_killed_run_on_sqlite_anywhere(tmp_path: Path, point: str, twice: tuple[str, ...]) -> None:
    await kill_and_resume(str(tmp_path / "t.db"), tmp_path / "effects", point, twice)


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")


@pytest.mark.parametrize(("point", "twice"), cases(QUICK[1:3]))
async def test_a_killed_run_on_postgres(
    postgres: str, tmp_path: Path, point: str, twice: tuple[str, ...]
) -> None:
    forget(postgres)
    await kill_and_resume(postgres, tmp_path / "effects", point, twice)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "twice"), cases([*QUICK, *FULL]))
async def test_a_killed_run_on_postgres_anywhere(
    postgres: str, tmp_path: Path, point: str, twice: tuple[str, ...]
) -> None:
    forget(postgres)
    await kill_and_resume(postgres, tmp_path / "effects", point, twice)
