"""The help desk and its experiment: questions have answers, and the arms differ in the advice alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.helpdesk import INTENTS, Intent, World, build, cases
from bench.helpdesk.experiment import Setting, interval, run, saving

from wesichain import ToolError
from wesichain.core import LlmRequest, Role
from wesichain.testing import FunctionLlm, calls
from wesichain.testing.models import Reply


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("world"))


def test_every_question_needs_two_to_five_calls_and_has_an_answer(world: World) -> None:
    found = cases(world, "train", each=9)
    assert len(found) == 9 * len(INTENTS)
    assert len({case.task.domain for case in found}) == 4
    assert {case.best - 1 for case in found} <= {2, 3, 4, 5}
    assert all(case.answer for case in found)
    assert len(world.tools()) == 20
    with pytest.raises(ToolError, match="amber has no record 'nobody'"):
        world.ask("amber", "nobody")


def test_training_and_held_out_questions_share_nothing(world: World) -> None:
    train, held_out = cases(world, "train", each=8), cases(world, "held_out", each=8)
    assert not {case.task.task_id for case in train} & {case.task.task_id for case in held_out}
    for intent in INTENTS:
        assert not set(intent.train) & set(intent.held_out)
        subjects = [
            {intent_of(case.task.description)[1] for case in part if case.intent == intent.name}
            for part in (train, held_out)
        ]
        assert not subjects[0] & subjects[1]
    assert [case.task.task_id for case in train] == [
        case.task.task_id for case in cases(world, "train", each=8)
    ]


def test_documents_cannot_be_read_from_elsewhere(world: World) -> None:
    for key in ("../x", "D", "Dx", "/etc/passwd", "D40/../D41"):
        with pytest.raises(ToolError):
            world.ask("quartz", key)


def intent_of(question: str) -> tuple[Intent, str]:
    for intent in INTENTS:
        for wording in (*intent.train, *intent.held_out):
            found = re.fullmatch(re.escape(wording).replace(r"\{\}", "(.+)"), question)
            if found is not None and found.group(1) in intent.subjects:
                return intent, found.group(1)
    raise AssertionError(question)


def explorer(request: LlmRequest) -> Reply:
    """A competent model: has to find the service, knows a useful result when it sees one, takes advice."""
    question = next(message.content for message in request.messages if message.role is Role.USER)
    text, _, advice = question.partition("\n\n")
    intent, key = intent_of(text)
    results = {
        message.tool_call_id: message.content for message in request.messages if message.role is Role.TOOL
    }
    asked = [call for message in request.messages for call in message.tool_calls]
    place = 0
    tried: list[str] = []
    for call in asked:
        tried.append(call.name)
        if call.name == intent.way[place]:
            key, place, tried = results[call.id], place + 1, []
            if place == len(intent.way):
                return key
    names = [spec.name for spec in request.tools]
    advised = [name for name in re.findall(r"\w+", advice) if name in names][place : place + 1]
    return calls((next(name for name in [*advised, *names] if name not in tried), {"key": key}))


async def test_the_experiment_shows_what_a_playbook_saves(world: World, tmp_path: Path) -> None:
    """With a competent model and the default embedder; questions in wordings that were never seen."""
    setting = Setting(FunctionLlm(explorer), world, limit=50)
    text = await run(setting, tmp_path, short=True)
    rows = {line.split("|")[1].strip(): line for line in text.split("\n") if line.startswith("| ")}
    base, learned = (float(rows[arm].split("|")[2].split()[0]) for arm in ("baseline", "learned"))
    assert learned < 0.5 * base
    assert (tmp_path / "learned.jsonl").read_text().count("\n") == 8
    assert (tmp_path / "train.jsonl").read_text().count("\n") == 12


def test_intervals_hold_their_mean() -> None:
    mean, low, high = interval([1, 2, 3, 4, 5, 6])
    assert low < mean == 3.5 < high
    share, least, most = saving([8, 8, 8, 8], [4, 4, 4, 4])
    assert (share, least, most) == (0.5, 0.5, 0.5)
