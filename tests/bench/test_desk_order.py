"""The shifting desk, all parts at once: the most important runs first, none twice, none without a model."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from bench.desk.arms import baseline
from bench.desk.dice import Dice
from bench.desk.experiment import Experiment, one_call_of
from bench.desk.learners import Teachers
from bench.desk.models import IMPORTANCE, Models, Room
from bench.desk.plan import ARMS, INJECTED, ORDER, STRESS_ARMS
from bench.desk.play import Place, Played, play
from bench.desk.report import write_page
from bench.desk.sections import first_call, recovered, ways_of, wordings
from bench.desk.store import Key, Store, read_runs, write_packed
from bench.desk.wordings import HEADED, RULES, SAYINGS, WAYS
from bench.desk.world import SECOND, build

from tests.learning.kit import words
from wesichain.core import HEADING, LlmRequest, LlmResponse, LlmTraits
from wesichain.errors import LlmTransportError


async def test_who_waits_is_let_in_by_importance_then_training_then_arrival() -> None:
    room, order, closed = Room(1), list[str](), asyncio.Event()

    async def run(name: str, importance: int, training: bool) -> None:
        IMPORTANCE.set(importance)
        async with room.place(training=training):
            order.append(name)
            await closed.wait()

    first = asyncio.create_task(run("first", 9, False))
    await asyncio.sleep(0)
    others = [
        ("later", 2, False),
        ("test", 1, False),
        ("train", 1, True),
        ("lost", 0, False),
        ("same", 1, False),
    ]
    tasks = {name: asyncio.create_task(run(name, rank, training)) for name, rank, training in others}
    await asyncio.sleep(0)
    tasks.pop("lost").cancel()
    closed.set()
    await asyncio.gather(first, *tasks.values())
    assert order == ["first", "train", "test", "same", "later"]
    async with asyncio.timeout(5), room.place(training=False):  # nobody took a place along
        pass


class Away:
    """A model that cannot be reached."""

    model = "away"
    traits = LlmTraits(observes_errors=True)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise LlmTransportError(f"nobody is there for {request.model}", retryable=True)


async def test_a_run_without_a_model_stops_the_experiment_and_is_not_kept(tmp_path: Path) -> None:
    models = Models([Away()], at_once=4)
    store = Store(tmp_path, quiet=True)
    with pytest.raises(ExceptionGroup):
        await Experiment(store, models, Teachers(words(), models), 2, 1, 1).wording("observatory")
    store.close()
    assert list(read_runs(tmp_path / "runs.jsonl")) == []


async def test_a_wording_is_what_the_first_call_can_follow(tmp_path: Path) -> None:
    models = Models([Dice("model")], at_once=4)
    store = Store(tmp_path, quiet=True)
    await Experiment(store, models, Teachers(words(), models), 2, 1, 1, revision="x").wording("observatory")
    store.close()
    runs = list(store.runs.values())
    asked = dict.fromkeys((*WAYS, *RULES), 10) | dict.fromkeys(SAYINGS, 7)  # whoever hands in asks nothing
    assert Counter(run.arm for run in runs) == asked
    assert {run.revision for run in runs} == {"x"}
    ways, fault = ways_of("observatory"), {"fault": "the server was not up yet"}
    searches = [run for run in runs if run.arm in WAYS]
    assert all("look_in_" in run.prompt or "hand_in_" in run.prompt for run in searches)
    late = [replace(run, calls=[fault, {"tool": ways[run.family], "args": {}}]) for run in searches]
    assert wordings(late).count("| 10 | 10 |") == len(WAYS)  # what came before the first call is none
    told = {run.task: run.prompt.splitlines()[-1] for run in runs if run.arm == "applied"}
    kept = {run.task: run.prompt.splitlines()[-1] for run in runs if run.arm == "kept"}
    assert all(told[task] != kept[task] for task in kept if "contact" not in task)
    assert {run.arm for run in runs if HEADED in run.prompt} == {"headed", "headed-listed", "headed-rule"}
    ends = {run.arm: run.prompt.splitlines()[-1] for run in runs if run.arm in SAYINGS}
    assert "answer" in ends["say"]
    assert not any("look_in_" in end for end in ends.values())
    assert len(set(ends.values())) == len(SAYINGS)
    assert first_call(replace(runs[0], calls=[fault])) == {}


def test_families_of_one_call_are_tasks_of_the_same_world() -> None:
    whole = build(SECOND.fresh[0], level=2)
    few = one_call_of(whole)
    known = {task.id: task for desk in whole.desks for task in (*desk.train, *desk.test)}
    chosen = [task for desk in few.desks for task in (*desk.train, *desk.test)]
    assert 0 < len(chosen) < len(known)
    assert all(known[task.id] == task for task in chosen)
    assert not any(task.family.endswith("_by_name") for task in chosen)


def test_every_arm_of_every_part_stands_in_the_order() -> None:
    asked = {(part, arm) for part, arms in ORDER for arm in arms}
    wanted = {("main", arm) for arm in ARMS} | {
        (part, arm) for part, arms in STRESS_ARMS.items() for arm in arms
    }
    assert asked == wanted


async def test_the_page_tells_revisions_apart(tmp_path: Path) -> None:
    desk = build(SECOND.fresh[0], level=2, train=1, test=1).desks[2]
    made = [
        (
            await play(
                await baseline(Dice(task.id), desk, task),
                desk,
                task,
                Place("baseline", "main", SECOND.fresh[0]),
            )
        )[0]
        for task in desk.test[:3]
    ]
    write_packed(made, tmp_path / "before.jsonl.gz")
    write_packed(made[:1], tmp_path / "now.jsonl.gz")
    page = tmp_path / "page.md"
    write_page(
        [tmp_path / "now.jsonl.gz"], page, model="dice", revision="two", before=[tmp_path / "before.jsonl.gz"]
    )
    assert "1 runs were made" in page.read_text()
    assert list(read_runs(tmp_path / "page" / "runs-dice-two.jsonl.gz")) == made[:1]
    write_packed([*made, replace(made[0], arm="full")], tmp_path / "now.jsonl.gz")
    write_page([tmp_path / "now.jsonl.gz"], page, model="dice")
    assert "| full | 1, cut off |  |" in page.read_text()  # one task of three is no share of solved tasks


def test_a_family_recovers_when_it_succeeds_without_the_old_way() -> None:
    old = ways_of("harbour")["shelf_CB"]
    said = ["", f"{HEADING}\n- For cable: call {old}.", "", ""]
    runs = [
        Played(
            arm="full",
            part="drift",
            world="harbour",
            desk="registers",
            family="shelf_CB",
            task=f"harbour/registers/shelf_CB/train-{order}",
            success=order > 0,
            why="",
            steps=2,
            read=5,
            written=1,
            ended="completed",
            answer="",
            prompt=prompt,
            question="q",
            order=order,
        )
        for order, prompt in enumerate(said)
    ]
    assert recovered(runs, "full") == {("harbour", "shelf_CB"): 3}
    assert recovered(runs[:2], "full") == {("harbour", "shelf_CB"): None}


@pytest.mark.slow
async def test_everything_at_once_can_be_stopped_and_makes_no_run_twice(tmp_path: Path) -> None:
    async def once(seconds: float | None) -> dict[Key, Played]:
        models = Models([Dice("model")], at_once=16)
        store = Store(tmp_path, quiet=True)
        experiment = Experiment(store, models, Teachers(words(), models), 2, 1, 1)
        try:
            async with asyncio.timeout(seconds):
                await experiment.everything([SECOND.fresh[0]], ARMS)
        except TimeoutError:
            pass
        finally:
            store.close()
        return dict(store.runs)

    assert await once(3.0)
    runs = await once(None)
    lines = list(read_runs(tmp_path / "runs.jsonl"))
    assert len(lines) == len(runs)
    assert {part for part, arms in ORDER if arms} <= {run.part for run in lines}
    assert not any(INJECTED in run.prompt for run in lines)
    assert await once(None) == runs
