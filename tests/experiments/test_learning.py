"""The learning experiment: its worlds are sound, its harness runs every arm, its page recomputes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments.learning.__main__ import RESULTS
from experiments.learning.harness import ARMS, Log, Plan, RunLine, play
from experiments.learning.report import difference, fewer_steps, page
from experiments.learning.world import World, read_worlds

from tests.draws import IS_THOROUGH, sampled
from tests.learning.kit import words
from wesichain.core import LlmRequest, Role
from wesichain.core.internal import dump_json
from wesichain.learning.lesson_guard import LessonGuard
from wesichain.testing import FunctionLlm, calls
from wesichain.testing.models import Reply

WORLDS = read_worlds()
every_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: str(world.name))


@every_world
def test_a_world_has_tasks_enough_and_none_is_in_both_halves(world: World) -> None:
    training, held_out = world.tasks(training=24, held_out=24)
    assert (len(training), len(held_out)) == (24, 24)
    assert not {task.text for task in training} & {task.text for task in held_out}
    assert world.source


@every_world
async def test_the_right_call_solves_a_task_and_tools_accept_it(world: World, tmp_path: Path) -> None:
    training, held_out = world.tasks(training=24, held_out=24)
    wanted = {task.text: task for task in (*training, *held_out)}

    def expert(request: LlmRequest) -> Reply:
        if request.messages[-1].role is Role.TOOL:
            return "done"
        task = wanted[request.messages[-1].text]
        return calls((task.tool, dict(task.args)))

    log = Log(tmp_path / "log.jsonl")
    await play(world, "plain", Plan(FunctionLlm(expert), embedder=words()), log=log)
    assert [line.solved for line in log.lines] == [True] * 24


@every_world
def test_no_description_states_a_rule(world: World) -> None:
    texts = " ".join(tool.spec.description for tool in world.tools())
    assert not [text for text in world.sentences if text in texts]


def student(world: World) -> FunctionLlm:
    """Solves a task where the prompt has a sentence about its tool; words lessons where it is asked to."""
    training, held_out = world.tasks(training=4, held_out=6)
    wanted = {task.text: task for task in (*training, *held_out)}

    def reply(request: LlmRequest) -> Reply:
        if request.output_schema is not None and "rule" in dump_json(request.output_schema):
            tool = request.messages[-1].text.partition('"name":"')[2].partition('"')[0]
            return dump_json(
                {"tool": tool, "parameter": "", "about": "order", "rule": "Take care of every value."}
            )
        if request.output_schema is not None:
            return dump_json({"instructions": "Be careful with every tool.", "tools": []})
        if request.messages[-1].role is Role.TOOL:
            return "done"
        task = wanted[request.messages[-1].text]
        system = request.messages[0].text
        knows = f"{task.tool}: " in system or "careful" in system or "Take care" in system
        return calls((task.tool, dict(task.args) if knows else dict.fromkeys(task.args, "?")))

    return FunctionLlm(reply)


@pytest.mark.parametrize("arm", ARMS)
async def test_every_arm_runs_and_is_not_run_again(tmp_path: Path, arm: str) -> None:
    world = next(one for one in WORLDS if one.name == "payments")
    plan = Plan(student(world), training=4, held_out=6, embedder=words(), improve_runs=20)
    log = Log(tmp_path / "log.jsonl")
    await play(world, arm, plan, log=log, others=WORLDS)
    solved = sum(line.solved for line in log.lines if line.phase == "held-out")
    assert solved == {"plain": 0, "dice": 0, "as-they-came": 0}.get(arm, solved)
    if arm in ("manual", "owner", "learned-a"):
        assert solved == 6
    again = Log(tmp_path / "log.jsonl")
    assert again.lines == log.lines
    await play(world, arm, plan, log=again, others=WORLDS)
    assert len(again.lines) == len(log.lines)


def searcher(request: LlmRequest) -> Reply:
    """Calls the tools that its instructions name, then the others, in order, until one has done it."""
    if request.messages[-1].role is Role.TOOL and "done" in request.messages[-1].text:
        return "It is done."
    system, task = request.messages[0].text, request.messages[1].text
    tried = [call.name for message in request.messages for call in message.tool_calls]
    offered = [tool for tool in request.tools if tool.name not in tried]
    offered.sort(key=lambda tool: tool.name not in system)
    if not offered:
        return "It could not be done."
    (parameter,) = offered[0].parameters["properties"]
    return calls((offered[0].name, {parameter: re.findall(r"[A-Z]{2}-\d{4}", task)[0]}))


@pytest.mark.sampled
async def test_learned_searches_take_30_to_50_percent_fewer_steps_with_the_defaults(tmp_path: Path) -> None:
    """SC-002 by script: the measured figure is of a real model, this holds what is learned and shown."""
    log = Log(tmp_path / "log.jsonl")
    worlds = sampled([world for world in WORLDS if world.part == "search"], 1)
    for world in worlds:
        for arm in ("plain", "learned-c"):
            await play(world, arm, Plan(FunctionLlm(searcher), training=24, held_out=18), log=log)
    found = re.findall(r"(\d+\.\d)(?:,|$)", fewer_steps(log.lines).partition("reached; ")[2])
    assert len(found) == len(worlds)
    assert all(30 <= float(saved) <= 50 for saved in found)


def test_the_page_recomputes_from_the_log() -> None:
    def line(arm: str, number: int, solved: bool) -> RunLine:
        return RunLine(
            "w", "f", "judged", arm, "held-out", f"t{number}", solved, 2, 1000, 10 if "learned" in arm else 0
        )

    lines = [
        line(arm, number, arm != "plain" and number < 8)
        for arm in ("plain", "owner", "learned-a")
        for number in range(10)
    ]
    found = page(lines, model="m")
    assert "| owner | 10 | 80.0 | +80.0 (+50.0 to +100.0) | 2.00 | 1000 |  |" in found
    assert "learned-a at least 80% of the owner's gain: +80.0 of +64.0, reached" in found
    assert "learned-b at least 50% of the owner's gain: not run" in found
    assert "learning takes below 5 % of the tokens: 100 of 10,000, reached" in found
    assert difference({}, {}) == (0.0, 0.0, 0.0)


@every_world
def test_a_database_difference_cannot_become_a_lesson_as_it_is(world: World) -> None:
    task = world.tasks(training=1, held_out=1)[0][0]
    why = world.difference("r", task)
    guard = LessonGuard([], [task.text, why])
    assert guard.refusal(why[:200])


def test_a_person_reads_the_call_that_was_refused() -> None:
    world = next(one for one in WORLDS if one.name == "retail")
    task = next(one for one in world.tasks(training=4, held_out=4)[0] if one.tool == "cancel_order")
    bare = {**task.args, "order_id": "W1"}
    assert world.sentence_for(task, [(task.tool, bare)]).startswith("An order_id begins")
    assert "reason is" in world.sentence_for(task, [(task.tool, {**task.args, "reason": "ill"})])


@pytest.mark.sampled
def test_the_runs_on_record_give_the_pages_beside_them() -> None:
    folders = sorted(
        RESULTS.glob("*/local-*"), key=lambda folder: sum(path.stat().st_size for path in folder.glob("*.gz"))
    )
    for folder in folders if IS_THOROUGH else folders[:1]:
        logs = [path for path in sorted(folder.glob("*.gz")) if "lessons" not in path.name]
        lines = [line for path in logs for line in Log(path).lines]
        model = folder.name.replace("local-", "local:")
        assert page(lines, model=model) + "\n" == (folder / "README.md").read_text(encoding="utf-8")
