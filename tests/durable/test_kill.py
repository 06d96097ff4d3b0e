"""Processes that end: what was done stays done, and the run ends as if it had been in one process."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.conftest import no_durable_sqlite
from tests.durable.conftest import Play
from tests.durable.databases import database_in
from tests.durable.stage import Scene
from tests.warm import python

WORLD = ["ask 1", "add 1", "ask 2", "pay", "ask 3", "look", "add 3", "ask 4"]  # in this order, undisturbed
EVENTS = 18  # that an undisturbed run tells

# Where the process dies. `after` is when it happened in the world and is not recorded; the event after a
# step is when it is.
BEFORE = [f"{what} before" for what in WORLD]
AFTER = [f"{what} after" for what in WORLD]
TOLD = [f"event {number}" for number in range(1, EVENTS + 1)]
QUICK = ["pay after", "event 8"]


def plain(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in event.items() if key not in ("at", "duration_ms", "seconds")}
        for event in events
    ]


def happened(scene: Scene) -> Counter[str]:
    path = Path(scene.effects)
    return Counter(path.read_text().split("\n")[:-1]) if path.exists() else Counter()


@pytest.fixture(scope="session")
def undisturbed(
    play: Play, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What the run tells that nobody kills: the same in every database."""
    scene = on_file(tmp_path_factory.mktemp("calm"), "")
    if no_durable_sqlite():
        scene = replace(scene, url=another(request.getfixturevalue("postgres")))
    told = play(scene)
    assert told["output"] == "done"
    assert [line.partition("|")[0] for line in happened(scene)] == WORLD
    assert len(told["events"]) == EVENTS
    return plain(told["events"])


def another(postgres: str) -> str:
    """A second database on a server: a run id stands in each of them once."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE calm")
    return make_url(postgres).set(database="calm").render_as_string(hide_password=False)


def kill_and_go_on(play: Play, scene: Scene, undisturbed: list[dict[str, Any]]) -> None:
    """Kill a run at a point, go on with it in another process, and compare it with an undisturbed one."""
    assert play(scene) == {"signal": signal.SIGKILL}
    before = happened(scene)
    told = play(replace(scene, die=""))
    after = happened(scene)

    where = scene.die.removesuffix(" after").removesuffix(" before")
    assert told["output"] == "done"
    if where == "pay":  # nobody can know whether it was done: the model is told so, and it is not done again
        assert after["pay|r:2:pay-0"] == before["pay|r:2:pay-0"]
        assert "is unknown" in str(told["messages"])
        after["pay|r:2:pay-0"] = 1
    else:
        assert plain(told["events"]) == undisturbed
    assert {line.partition("|")[0] for line in after} == set(WORLD)
    assert len(after) == len(WORLD), "a call that is run again has the same key"
    for line, times in after.items():
        is_cut_off = scene.die == f"{line.partition('|')[0]} after"
        assert times == (2 if is_cut_off and where != "pay" else 1), line
    assert play(replace(scene, die=""))["events"] == told["events"]  # it has ended, and says the same again
    assert sum(happened(scene).values()) == sum(after.values()) - (
        where == "pay" and scene.die.endswith("before")
    )


def on_file(tmp_path: Path, point: str) -> Scene:
    return Scene(database_in(tmp_path), str(tmp_path / "effects"), die=point)


@pytest.mark.parametrize("point", QUICK)
def test_a_killed_run_on_sqlite(
    play: Play, undisturbed: list[dict[str, Any]], tmp_path: Path, point: str
) -> None:
    kill_and_go_on(play, on_file(tmp_path, point), undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("point", [*BEFORE, *AFTER, *TOLD])
def test_a_killed_run_on_sqlite_anywhere(
    play: Play, undisturbed: list[dict[str, Any]], tmp_path: Path, point: str
) -> None:
    kill_and_go_on(play, on_file(tmp_path, point), undisturbed)


@pytest.mark.parametrize("point", ["add 1 after"])
def test_a_killed_run_on_postgres(
    play: Play, undisturbed: list[dict[str, Any]], postgres: str, tmp_path: Path, point: str
) -> None:
    scene = Scene(postgres, str(tmp_path / "effects"), name=f"killed-{point.split()[0]}", die=point)
    kill_and_go_on(play, scene, undisturbed)


def test_what_ran_beside_a_call_that_was_cut_off_is_not_done_again(play: Play, tmp_path: Path) -> None:
    scene = replace(on_file(tmp_path, "look after"), concurrency=2)
    assert play(scene) == {"signal": signal.SIGKILL}
    told = play(replace(scene, die=""))
    assert told["output"] == "done"
    after = Counter(line.partition("|")[0] for line in happened(scene).elements())
    assert after == Counter([*WORLD, "look"])
    assert play(replace(scene, die=""))["events"] == told["events"]


def test_an_approval_takes_three_processes_and_one_of_them_dies(play: Play, tmp_path: Path) -> None:
    scene = replace(on_file(tmp_path, ""), approval=True)
    assert play(scene)["error"] == "RunInterruptedError"
    approved = play(replace(scene, act="approve"))
    assert len(approved["tokens"]) == 1
    assert approved["status"] == "pending"
    assert play(replace(scene, act="approve")) == {"tokens": [], "status": "pending"}
    assert play(replace(scene, die="look after")) == {"signal": signal.SIGKILL}
    told = play(scene)
    assert told["output"] == "done"
    assert told["events"][0]["kind"] == "run_started"
    after = Counter(line.partition("|")[0] for line in happened(scene).elements())
    assert after == Counter([*WORLD, "look"])


@pytest.mark.slow
def test_many_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from wesichain import Agent
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm
agent = Agent(FunctionLlm(lambda _: "done"))
durable = DurableAgent(agent, "many", database_url="sqlite:///{tmp_path}/runs.db")
asyncio.run(durable.run("go", run_id=sys.argv[1]))
print(asyncio.run(durable.run("go", run_id="shared")).output)
"""
    command = [*python(), "-c", code]
    processes = [
        subprocess.Popen([*command, f"r{number}"], stdout=subprocess.PIPE, text=True) for number in range(5)
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["done\n"] * 5
