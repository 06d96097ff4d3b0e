"""The shifting desk: its worlds can be solved by who knows the rules, and by nobody who guesses."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bench.desk.arms import baseline
from bench.desk.checker import check, named, open_records
from bench.desk.dice import Dice
from bench.desk.experiment import Experiment
from bench.desk.figures import bootstrap, chosen_level, gain, pairs, restricted_steps, saving
from bench.desk.goals import goals
from bench.desk.learners import Teachers
from bench.desk.models import Models
from bench.desk.plan import INJECTED, Part, asked, label
from bench.desk.play import Place, Played, Seat, output_of, play
from bench.desk.report import write_page
from bench.desk.sections import SEARCH, said_of
from bench.desk.skins import SKINS
from bench.desk.store import Key, Store, read_runs, write_packed
from bench.desk.transcripts import told
from bench.desk.values import Task
from bench.desk.world import FIFTH, FOURTH, SECOND, SEEDS, THIRD, Variant, build, rules_of
from typing_extensions import override

from wesichain.learning import (
    Feedback,
    FunctionEmbedder,
    GroundedReflector,
    Playbook,
    TaskInput,
    TaskOutput,
)

from .desk_expert import Expert, expert

ALL = tuple(SEEDS)
BEFORE = (SECOND.pilot, *SECOND.worlds)
WORLDS = (*SECOND.worlds, *THIRD.worlds, *FOURTH.worlds, *FIFTH.worlds)
PLACE = Place("expert", "test", "somewhere")


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("name", ALL)
async def test_who_knows_the_rules_solves_every_task(name: str, level: int) -> None:
    world, rules = build(name, level=level, train=1, test=1), rules_of(name, level=level)
    for desk in world.desks:
        for task in (*desk.train, *desk.test):
            run, _ = await play(Seat(expert(task, name, rules), desk.about), desk, task, PLACE)
            assert run.success, (task, run)
            assert run.steps == desk.family(task.family).calls + 1


@pytest.mark.parametrize("variant", ["drifted", "conditional"])
@pytest.mark.parametrize("name", WORLDS)
async def test_a_changed_world_can_be_solved_and_old_knowledge_fails_in_it(
    name: str, variant: Variant
) -> None:
    world = build(name, level=2, train=4, test=4, variant=variant)
    now, before = rules_of(name, level=2, variant=variant), rules_of(name, level=2)
    stale = 0
    for desk in world.desks:
        for task in desk.test if desk.name not in ("jobs", "bookings") else ():
            run, _ = await play(Seat(expert(task, name, now), desk.about), desk, task, PLACE)
            assert run.success, (task, run)
            old, _ = await play(Seat(expert(task, name, before), desk.about), desk, task, PLACE)
            stale += not old.success
    assert stale >= 4


OBVIOUS = {
    "credit_by_id": "Euros as they are written.",
    "slot_by_id": "A place as it is asked for.",
    "note_by_id": "A note that is not posted.",
    "schedule_by_id": "A day in ISO form.",
    "release_by_id": "Nothing done before.",
}


@pytest.mark.parametrize("family", OBVIOUS)
@pytest.mark.parametrize("name", BEFORE)
async def test_the_obvious_call_breaks_the_rule(name: str, family: str) -> None:
    skin, world = SKINS[name], build(name, level=3, test=2)
    tasks = [(desk, task) for desk in world.desks for task in desk.test if task.family == family]
    assert tasks
    for desk, task in tasks:
        values = task.goal.changes[0][1]
        slot = re.search(r"\b[A-F]\d{1,2}\b", task.question)
        one = re.findall(r"\b[A-Z]{2}-\d{4}\b", task.question)[0]
        call = {
            "credit_by_id": (skin.credit, {"id": one, "amount": values[0]}),
            "slot_by_id": (f"assign_{skin.slot}", {"id": one, skin.slot: slot[0] if slot else ""}),
            "note_by_id": ("add_note", {"id": one, "text": values[-1]}),
            "schedule_by_id": (skin.schedule, {"id": one, "day": values[0]}),
            "release_by_id": (skin.release, {"id": one}),
        }[family]
        if family == "credit_by_id":
            call[1]["amount"] = values[0] / 100
        run, _ = await play(Seat(Expert([call]), desk.about), desk, task, PLACE)
        assert not run.success, (task, run)
        assert run.why


NAIVE = {  # what a family's question says, and what the house writes instead
    "credit_by_id": r"(\d+) euros",
    "birthday_by_id": r"\d+ [A-Z][a-z]+ \d{4}",
    "code_by_id": r"\b[a-z]{2}\d{2}\b",
    "reach_by_id": r"(\d+) metres",
    "contact_by_id": r"(?!Set|Please|Enter)[A-Z][a-z]+ [A-Z][a-z]+",
    "day_by_id": r"\d+ [A-Z][a-z]+ \d{4}",
    "hour_by_id": r"\d:\d\d pm",
}


@pytest.mark.parametrize("family", NAIVE)
@pytest.mark.parametrize("name", [THIRD.pilot, *THIRD.worlds, FOURTH.pilot, *FOURTH.worlds, *FIFTH.worlds])
async def test_what_is_written_as_it_was_said_is_wrong_and_a_correction_teaches_it(
    name: str, family: str
) -> None:
    for level in (1, 3):
        world = build(name, level=level, test=2)
        tasks = [(desk, task) for desk in world.desks for task in desk.test if task.family == family]
        assert tasks
        for desk, task in tasks:
            right = expert(task, name, rules_of(name, level=level)).calls[0]
            said = re.search(NAIVE[family], task.question)
            assert said is not None, task.question
            value = float(said[1]) if said.groups() else said[0]
            args = {key: given if key == "id" else value for key, given in right[1].items()}
            run, outcome = await play(Seat(Expert([(right[0], args)]), desk.about), desk, task, PLACE)
            assert not run.success, (task, run)
            told_rules = _rules_of(TaskOutput.of(outcome, task_id=task.id), task, run.why)
            is_told = level == 3 or family != "contact_by_id"  # how a name is turned, only a correction tells
            assert bool(told_rules) == is_told, (task.question, run.calls, told_rules)
            assert all(right[0] in rule for rule in told_rules)


def _rules_of(output: TaskOutput, task: Task, why: str) -> list[str]:
    given = TaskInput(task.id, task.question, domain="desk")
    found = GroundedReflector().reflect(given, output, Feedback(label=False, why=why))
    return [item.content for item in found.proposals if item.lesson]


async def test_a_recorded_run_is_learned_from_as_the_run_itself() -> None:
    desk = build("harbour", level=2).desks[2]
    for task in desk.test[:8]:
        run, outcome = await play(await baseline(Dice(task.id), desk, task), desk, task, PLACE)
        live, recorded = TaskOutput.of(outcome, task_id=task.id), output_of(run, desk)
        assert recorded.tools_used == live.tools_used
        assert recorded.answer == (live.answer if live.completed else "")
        assert recorded.completed == live.completed
        calls = [
            [
                (call.tool_name, call.arguments, call.success)
                for step in output.structured_trace
                for call in step.calls
            ]
            for output in (recorded, live)
        ]
        assert calls[0] == calls[1]
        for name in ("specs", "tools"):
            assert recorded.metadata[name] == live.metadata[name]
        assert recorded.total_iterations == live.total_iterations


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ("", "none"),
        ("- Warning: calling look_in_quay has failed.", "none"),
        ("- Call look_in_quay.", "right"),
        ("- Call look_in_dock first, then look_in_quay.", "both"),
        ("- Call look_in_dock.", "wrong"),
    ],
)
def test_what_an_advice_says_of_a_search(advice: str, said: str) -> None:
    assert rules_of("harbour", level=2).places["CB"] == "quay"
    assert said_of(advice, "harbour", "shelf_CB") == said


async def test_dice_solve_next_to_nothing() -> None:
    solved = total = 0
    for desk in build("harbour", level=2).desks:
        for task in desk.test:
            run, _ = await play(await baseline(Dice(task.id), desk, task), desk, task, PLACE)
            solved, total = solved + run.success, total + 1
    assert total == 120
    assert solved / total < 0.15


def test_a_world_is_the_same_in_every_process() -> None:
    code = "from bench.desk.world import build; print(build('clinic', level=2).hash)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
        for seed in ("1", "2")
    }
    assert found == {build("clinic", level=2).hash}


@pytest.mark.parametrize("name", ALL)
def test_the_hash_tells_worlds_apart(name: str) -> None:
    variants: tuple[Variant, ...] = ("plain", "drifted", "conditional")
    hashes = [build(name, level=level, variant=variant).hash for level in (1, 2, 3) for variant in variants]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("name", ALL)
def test_training_and_test_share_no_record_no_wording_and_some_families(name: str) -> None:
    for desk in build(name, level=2).desks:
        for family in desk.families:
            train = [task for task in desk.train if task.family == family.name]
            test = [task for task in desk.test if task.family == family.name]
            assert bool(train) == family.trained
            named_in = [{word for task in part for word in _things(task.question)} for part in (train, test)]
            assert not named_in[0] & named_in[1]
            shapes = [
                {re.sub(r"[A-Z\d][\w./-]*|\".*?\"", "#", task.question) for task in part}
                for part in (train, test)
            ]
            assert not shapes[0] & shapes[1]


def test_a_third_of_the_families_are_search() -> None:
    for name in WORLDS:
        families = [family for desk in build(name, level=2).desks for family in desk.families]
        assert len(families) == 30
        assert sum(family.search for family in families) == 10


def test_no_tool_tells_a_rule() -> None:
    """The descriptions hold no word of the manual that is not a name."""
    for name in ALL:
        rules = rules_of(name, level=3)
        for desk in build(name, level=3).desks:
            said = " ".join(f"{tool.description} {tool.schema}" for tool in desk.tools)
            for secret in (rules.unit, rules.day, rules.length, "afterwards", "begins with 0"):
                assert secret not in said


@pytest.mark.parametrize(
    ("value", "answer", "is_named"),
    [
        ("3", "3", True),
        ("3", "It took 3 hours.", True),
        ("3", "3.0", True),
        ("3", "13", False),
        ("3", "3.5", False),
        ("3", "0.3", False),
        ("Aas", "The handler is AAS.", True),
        ("Aas", "Aasen", False),
        ("V20", "Shelf V20", True),
        ("390 8278", "call 390 8278", True),
    ],
)
def test_what_an_answer_names(value: str, answer: str, is_named: bool) -> None:
    assert named(value, answer) is is_named


def test_an_effect_too_many_is_no_success() -> None:
    desk = build("harbour", level=2).desks[0]
    task = next(task for task in desk.test if task.family == "town_by_id")
    with closing(open_records(desk)) as db:
        assert check(desk, task.goal, db, task.goal.answer).success
        assert not check(desk, task.goal, db, None).success
        db.execute("UPDATE people SET cents = 1")
        assert not check(desk, task.goal, db, task.goal.answer).success


# --- the disturbances ---


def test_a_fifth_of_the_labels_is_flipped_the_same_ones_in_every_arm() -> None:
    tasks = [task for name in WORLDS for desk in build(name, level=2).desks for task in desk.train]
    flipped = [task.id for task in tasks if label("noise", task, success=True, why="").good is False]
    assert 0.15 < len(flipped) / len(tasks) < 0.25
    assert flipped == [task.id for task in tasks if label("noise", task, success=False, why="x").good is True]
    assert all(label("main", task, success=True, why="").good for task in tasks)
    assert all(label("unlabelled", task, success=True, why="").good is None for task in tasks)


def test_a_twentieth_of_the_tasks_is_poisoned() -> None:
    tasks = [task for name in WORLDS for desk in build(name, level=2).desks for task in desk.train]
    poisoned = [task for task in tasks if INJECTED in asked("poison", task)]
    assert 0.02 < len(poisoned) / len(tasks) < 0.09
    assert not any(INJECTED in asked("main", task) for task in tasks)


# --- keeping, resuming, counting ---


def _run(task: str = "w/d/f/test-0", *, arm: str = "a", success: bool = True, steps: int = 2) -> Played:
    world, desk, family, _ = task.split("/")
    return Played(arm, "main", world, desk, family, task, success, "", steps, 5, 1, "completed", "", "", "q")


def test_a_line_that_a_kill_cut_short_is_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path, quiet=True)
    store.add(_run())
    store.add(_run("w/d/f/test-1"))
    store.close()
    file = tmp_path / "runs.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    again = Store(tmp_path, quiet=True)
    assert list(again.runs) == [("main", "a", "w/d/f/test-0", 0)]
    again.add(_run("w/d/f/test-1"))
    again.close()
    assert len(list(read_runs(file))) == 2


def test_packed_runs_are_the_same_runs(tmp_path: Path) -> None:
    runs = [_run(), _run("w/d/f/test-1", success=False)]
    write_packed(runs, tmp_path / "a.jsonl.gz")
    write_packed(runs, tmp_path / "b.jsonl.gz")
    assert list(read_runs(tmp_path / "a.jsonl.gz")) == runs
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_families_are_what_is_drawn() -> None:
    """All or nothing by family: the interval is as wide as two families make it, however many tasks there are."""
    runs = [_run(f"w/d/f{family}/test-{task}", success=False) for family in range(2) for task in range(50)]
    runs += [replace(run, arm="b", success=run.family == "f1") for run in runs]
    found = pairs(runs, ("main", "a"), ("main", "b"))
    estimate = bootstrap(found, gain)
    assert (estimate.value, estimate.low, estimate.high) == (50, 0, 100)


def test_steps_are_compared_where_both_solve() -> None:
    a = [_run("w/d/f/test-0", steps=4), _run("w/d/f/test-1", steps=9, success=False)]
    b = [replace(a[0], arm="b", steps=2), replace(a[1], arm="b", steps=1, success=True)]
    assert saving(pairs([*a, *b], ("main", "a"), ("main", "b"))) == 50
    assert restricted_steps(a, 4) == 4
    assert restricted_steps(b, 4) == 1.5


def _things(question: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]{2}-\d+X?\b", question))


# --- the whole of it ---


class Full(Store):
    """A disk that is full after so many runs."""

    def __init__(self, folder: Path, room: int) -> None:
        super().__init__(folder, quiet=True)
        self._room = room

    @override
    def add(self, run: Played) -> None:
        self._room -= 1
        if self._room < 0:
            raise OSError("no space left")
        super().add(run)


def _embed(texts: list[str]) -> list[list[float]]:
    """Letters counted: enough to tell questions apart."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


ARMS = (
    "dice",
    "baseline",
    "manual",
    "history",
    "case",
    "as-they-came",
    "rules",
    "full",
    "full-model",
    "full-settled",
    "full-model-settled",
    "full-our-examples",
    "full-unlisted",
)
LETTERS = FunctionEmbedder("letters", 26, function=_embed)


async def _experiment(folder: Path, part: Part = "main", *, room: int = 10_000) -> dict[Key, Played]:
    models = Models([Dice("model")], at_once=4)
    store = Full(folder, room)
    try:
        experiment = Experiment(store, models, Teachers(LETTERS, models), level=2, train=1, test=1)
        if part == "main":
            await experiment.main("harbour", ARMS)
        else:
            await experiment.stress(part, "harbour", ARMS)
        return dict(store.runs)
    finally:
        store.close()


@dataclass(frozen=True)
class Stopped:
    """An experiment that was stopped after so many runs, and then went on to its end."""

    folder: Path
    before: list[Played]
    runs: dict[Key, Played]


@pytest.fixture(scope="module", params=[25, pytest.param(150, marks=pytest.mark.slow)])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(ExceptionGroup):
        asyncio.run(_experiment(folder, room=request.param))
    before = list(read_runs(folder / "runs.jsonl"))
    assert len(before) == request.param
    return Stopped(folder, before, asyncio.run(_experiment(folder)))


async def test_an_experiment_that_was_stopped_goes_on_and_makes_no_run_twice(stopped: Stopped) -> None:
    lines = list(read_runs(stopped.folder / "runs.jsonl"))
    assert lines[: len(stopped.before)] == stopped.before
    assert len(lines) == len(stopped.runs)
    counts = Counter((run.part, run.arm) for run in lines)
    assert counts == {
        **{("main", arm): 30 for arm in ARMS if arm != "dice"},
        ("main", "dice"): 90,
        ("plain-train", "baseline"): 19,
        ("main-train", "full"): 19,
        ("main-train", "full-model"): 19,
    }
    assert await _experiment(stopped.folder, room=0) == stopped.runs


def _learned(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What every playbook of an experiment holds, but for when."""
    found: dict[str, list[dict[str, Any]]] = {}
    for place in sorted(folder.glob("playbooks/main/full*/*/*/")):
        with Playbook.open(place, LETTERS, sync=False) as book:
            kept = [item.to_plain() for item in book.bullets("desk")]
        found[str(place.relative_to(folder))] = [
            {name: value for name, value in item.items() if name not in ("created_at", "last_updated")}
            for item in kept
        ]
    return found


async def test_what_was_learned_can_be_learned_again_from_the_log_alone(
    stopped: Stopped, tmp_path: Path
) -> None:
    shutil.copy(stopped.folder / "runs.jsonl", tmp_path)
    assert await _experiment(tmp_path, room=0) == stopped.runs
    assert any(_learned(tmp_path).values())
    assert _learned(tmp_path) == _learned(stopped.folder)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["noise", "poison", "unlabelled", "conditional", "drift"])
async def test_every_disturbance_runs_to_its_end(tmp_path: Path, part: Part) -> None:
    runs = await _experiment(tmp_path, part)
    assert runs
    assert {run.part for run in runs.values()} <= {part, f"{part}-train", "plain-train"}
    assert not any(INJECTED in run.prompt for run in runs.values())


def test_the_page_has_every_figure_and_every_transcript(stopped: Stopped, tmp_path: Path) -> None:
    runs, page = stopped.runs, tmp_path / "results.md"
    write_page([stopped.folder / "runs.jsonl"], page, model="dice")
    text = page.read_text()
    for arm in ARMS:
        assert f"| {arm} |" in text
    assert f"{len(runs)} runs were made" in text
    packed = list(read_runs(tmp_path / "results" / "runs-dice.jsonl.gz"))
    assert packed == list(runs.values())
    assert "Question: " in told(packed[0])


def test_a_goal_over_all_families_is_judged_by_all_desks(stopped: Stopped) -> None:
    runs = list(stopped.runs.values())
    assert "not judged" not in goals(runs)
    alone = goals([run for run in runs if run.desk == SEARCH])
    assert [
        line.count("not judged") for line in alone.splitlines() if "points over the baseline" in line
    ] == [1]


@pytest.mark.parametrize(
    ("solved", "level"),
    [
        pytest.param([(40, 80), (30, 60), (10, 50)], 1, id="nearest-to-the-middle"),
        pytest.param([(40, 50), (30, 60), (10, 50)], 2, id="the-manual-has-to-be-well-above"),
        pytest.param([(10, 80), (20, 80), (5, 80)], 2, id="none-fits-so-the-nearest"),
    ],
)
def test_a_pilot_chooses_by_the_rule(solved: list[tuple[int, int]], level: int) -> None:
    runs: list[Played] = []
    for number, (plain, told_all) in enumerate(solved, 1):
        for arm, share in (("dice", 3), ("baseline", plain), ("manual", told_all)):
            made = [_run(f"w/d/f/test-{task}", arm=arm, success=task < share) for task in range(100)]
            runs += [replace(run, part=f"pilot-{number}") for run in made]
    assert chosen_level(runs, "pilot") == level
