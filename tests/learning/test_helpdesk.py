"""The help desk and its experiment: questions have answers, and the arms differ in the advice alone."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from bench.helpdesk import INTENTS, Desk, Intent, World, build, cases
from bench.helpdesk.experiment import STAND_INS, Experiment, Form, Result, results, run
from bench.helpdesk.figures import interval, saving, summary
from bench.helpdesk.report import document
from bench.helpdesk.student import Student

from wesichain import ToolCall, ToolContext, ToolError, ToolSet
from wesichain.core import LlmRequest, Message, Role, parse_json
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
    assert len(Desk(world).tools()) == 16
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
    asked = [call for message in request.messages for call in message.tool_calls]
    results = [message.content for message in request.messages if message.role is Role.TOOL]
    place = 0
    tried: list[str] = []
    for call, result in zip(asked, results, strict=True):
        tried.append(call.name)
        value: Any = parse_json(result) if result.startswith("{") else {}
        if "customer" in value:
            return str(value["result"])
        if call.name == intent.way[place] and value:
            key, place, tried = str(value["result"]), place + 1, []
    names = [spec.name for spec in request.tools if re.search(pattern_of(spec.parameters), key)]
    every = [spec.name for spec in request.tools]
    way = advice if " first, then " in advice else ""  # a warning gives none
    advised = [name for name in re.findall(r"\w+", way) if name in every][place : place + 1]
    return calls((next(name for name in [*advised, *names] if name not in tried), {"key": key}))


def pattern_of(parameters: Any) -> str:
    return str(parameters["properties"]["key"]["pattern"])


@pytest.mark.parametrize(
    ("form", "taught"),
    [
        pytest.param("short", 8, id="the short form"),
        pytest.param("full", 30, id="the whole", marks=pytest.mark.slow),
    ],
)
async def test_the_experiment_shows_what_a_playbook_saves(
    world: World, tmp_path: Path, form: Form, taught: int
) -> None:
    """With a competent model and the default embedder; questions in wordings that were never seen."""
    experiment = Experiment(FunctionLlm(explorer), world, tmp_path / "out")
    await run(experiment, world, form=form)
    before = results(tmp_path / "out")
    await run(experiment, world, form=form)  # it is all done: nothing is asked again
    experiment.close()
    assert results(tmp_path / "out") == before
    assert len([item for item in before if item.arm == "train"]) == taught
    assert iterations(before, "learned") < 0.6 * iterations(before, "baseline")
    solved = {arm: sum(item.right for item in before if item.arm == arm) for arm in ("baseline", "learned")}
    assert solved["learned"] > solved["baseline"]
    assert "fewer iterations" in summary(tmp_path / "out")
    page = document([tmp_path / "out", tmp_path / "out"], tmp_path)
    assert page.count("- For ") >= 2  # what was learned
    assert (tmp_path / "learning" / "iterations.svg").read_text().startswith("<svg")


def iterations(found: list[Result], arm: str) -> float:
    values = [item.iterations for item in found if item.arm == arm]
    return sum(values) / len(values)


async def test_a_service_that_is_down_has_one_that_stands_in_for_it(world: World) -> None:
    desk = Desk(world)
    tools = ToolSet.of(desk.tools()).build()
    for intent in INTENTS:
        for down, other in STAND_INS.get(intent.name, {}).items():
            desk.serve("nothing", down={down: other})
            key = intent.subjects[0]
            for service in intent.way[: intent.way.index(down)]:
                key = world.ask(service, key)
            failed = await tools.dispatch(ToolCall("1", down, {"key": key}), ToolContext())
            found = await tools.dispatch(ToolCall("2", other, {"key": key}), ToolContext())
            assert (failed.ok, found.value) == (False, {"result": world.ask(down, key)})


@contextmanager
def llama(replies: list[str], asked: list[Any]) -> Iterator[str]:
    """A server that stands for llama.cpp's, on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = {"content": replies.pop(0), "tokens_evaluated": 5, "tokens_predicted": 2}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_student_chooses_among_calls_that_make_sense(world: World) -> None:
    specs = ToolSet.of(Desk(world).tools()).build().specs()
    history = (
        Message(Role.USER, 'Who owes "Red Labs"?\n\nFor such questions, call "x9" first.'),
        Message(Role.ASSISTANT, tool_calls=(ToolCall("1", "jade", {"key": "Red Labs"}),)),
        Message(Role.TOOL, "jade has no record", tool_call_id="1"),
        Message(Role.ASSISTANT, tool_calls=(ToolCall("2", "amber", {"key": "Red Labs"}),)),
        Message(Role.TOOL, '{"result":"A1"}', tool_call_id="2"),
    )
    end = (
        Message(Role.ASSISTANT, tool_calls=(ToolCall("3", "birch", {"key": "A1"}),)),
        Message(Role.TOOL, '{"result":"9.50","customer":"That is it."}', tool_call_id="3"),
    )
    asked: list[Any] = []
    with llama(["pine(Red Labs)", "birch(A1)", "9.50"], asked) as url:
        student = Student(url, "m")
        replies = [
            await student.complete(LlmRequest("m", messages, specs))
            for messages in (history[:3], history, (*history, *end))
        ]
    assert [reply.tool_calls[0].args for reply in replies[:2]] == [{"key": "Red Labs"}, {"key": "A1"}]
    assert replies[2].content == "9.50"
    grammars = [{json.loads(part) for part in one["grammar"][9:].split(" | ")} for one in asked]
    assert grammars[0] == {f"{name}(Red Labs)" for name in ("amber", "kestrel", "pine")}  # jade has failed
    assert "birch(A1)" in grammars[1]
    assert not {"amber(Red Labs)", "jade(Red Labs)"} & grammars[1]  # both were called
    assert grammars[2] == {"9.50"}
    assert asked[1]["prompt"].startswith(asked[0]["prompt"])  # so that nothing is read twice


def test_intervals_hold_their_mean() -> None:
    found = interval([1, 2, 3, 4, 5, 6])
    assert found.low < found.mean == 3.5 < found.high
    same = saving([8, 8, 8, 8], [4, 4, 4, 4])
    assert (same.mean, same.low, same.high) == (0.5, 0.5, 0.5)
