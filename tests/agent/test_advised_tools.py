"""Advice that names a tool: the model is offered that tool first, wherever the run goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.kit import call, check_events, say
from tests.learning.kit import words
from wesichain import Agent
from wesichain.agent import Advice, Completed, Interrupted, replay
from wesichain.agent.rules.tally import Tally
from wesichain.core import RunStarted, Strategy, ToolSpec, from_json, to_json
from wesichain.core.events import AdviceShown
from wesichain.core.internal import Approve, advise
from wesichain.errors import RunInterruptedError
from wesichain.learning import Playbook, PlaybookBullet, ReActGenerator, TaskInput
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, find_run, load

NAMES = ("greet", "attic", "barn", "cellar", "den", "sell", "gift")


@tool
async def greet() -> str:
    """Say hello."""
    return "hello"


def tool_named(name: str, *, approval: bool = False) -> Any:
    async def look(code: str) -> str:
        """Look something up."""
        return f"{code} is in the {name}"

    return tool(name=name, approval=approval)(look)


@tool
async def sell(code: str, euros: int) -> str:
    """Sell something."""
    return f"{code} sold for {euros}"


@tool
async def gift(code: str, to: str) -> str:
    """Give something away."""
    return f"{code} given to {to}"


TOOLS = [greet, *map(tool_named, NAMES[1:5]), sell, gift]


class Shelf:
    """A playbook that names these tools."""

    def __init__(self, *tools: str, section: str = "Strategies") -> None:
        self.known = Strategy("s", "Do it this way.", section, tools)

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> list[Strategy]:
        return [self.known]


def offered_to(model: ScriptedLlm) -> list[tuple[str, ...]]:
    """The names of the tools that a model was offered, request by request."""
    return [tuple(spec.name for spec in request.tools) for request in model.requests]


@pytest.mark.parametrize(
    ("shelf", "offered"),
    [
        (Shelf("cellar"), ("greet", "cellar", "attic", "barn", "den", "sell", "gift")),
        (Shelf("den", "barn"), ("greet", "den", "barn", "attic", "cellar", "sell", "gift")),
        (Shelf("den", "sell"), ("greet", "den", "attic", "barn", "cellar", "sell", "gift")),
        (Shelf("attic"), NAMES),  # it is the first of those that take a code
        (Shelf("gift"), NAMES),  # nothing takes what it takes: there is nothing to try instead
        (Shelf("cellar", section="Pitfalls"), NAMES),  # a warning says where not to begin
        (Shelf(), NAMES),
        (Shelf("roof"), NAMES),  # about tools that are not here: not shown
        (None, NAMES),
    ],
)
async def test_what_advice_says_to_call_is_offered_first_in_every_step(
    shelf: Any, offered: tuple[str, ...]
) -> None:
    model = ScriptedLlm([say(call("barn", {"code": "K-1"})), "barn"])
    result = await Agent(model, tools=TOOLS, playbook=shelf).run("Where is K-1?")
    assert offered_to(model) == [offered, offered]
    started = next(event for event in result.events if isinstance(event, RunStarted))
    assert tuple(spec.name for spec in started.tools) == offered, "the log tells what the model is offered"
    check_events(result.events)


TAKES = {"attic": "code", "barn": "code", "den": "code", "sell": "code euros", "greet": "", "wave": ""}


@given(st.permutations(sorted(TAKES)), st.lists(st.sampled_from((*TAKES, "roof")), unique=True))
def test_what_is_advised_stands_before_its_like_and_nothing_else_moves(
    listed: list[str], advised: list[str]
) -> None:
    specs = tuple(
        ToolSpec(name, "", {"type": "object", "properties": {key: {} for key in TAKES[name].split()}})
        for name in listed
    )
    ordered = [spec.name for spec in Tally(advised=tuple(advised)).in_order(specs)]
    assert sorted(ordered) == sorted(listed)
    assert [name for name in ordered if name not in advised] == [
        name for name in listed if name not in advised
    ]
    for takes in set(TAKES.values()):
        alike = [name for name in listed if TAKES[name] == takes]
        wanted = [name for name in advised if name in alike]
        rest = [name for name in alike if name not in wanted]
        assert [name for name in ordered if name in alike] == wanted + rest


async def test_a_stopped_run_goes_on_in_another_program_with_the_same_list(tmp_path: Path) -> None:
    tools = [*TOOLS[:4], tool_named("den", approval=True)]
    first = ScriptedLlm([say(call("den", {"code": "K-1"}))])
    agent = Agent(first, tools=tools, playbook=Shelf("den"), events=[Recorder(tmp_path)])
    with pytest.raises(RunInterruptedError) as raised:
        await agent.run("Where is K-1?", run_id="r")
    stopped: Interrupted[str] = raised.value.outcome
    kept: Interrupted[str] = from_json(Interrupted, to_json(stopped))
    later = ScriptedLlm(["in the den"])
    other = Agent(later, tools=tools, playbook=Shelf("attic"), events=[Recorder(tmp_path)])
    decided = {pending.token: Approve() for pending in stopped.pending}
    result = await other.resume(kept, decided)
    assert result.output == "in the den"
    assert offered_to(first) == offered_to(later) == [("greet", "den", "attic", "barn", "cellar")]
    again = Agent(ScriptedLlm([]), tools=tools, playbook=Shelf("barn"))
    told = await replay(load(find_run(tmp_path, "r")), again)
    assert isinstance(told, Completed)
    assert told.output == "in the den"


async def test_a_replay_offers_what_was_offered_whatever_the_playbook_says_now(tmp_path: Path) -> None:
    model = ScriptedLlm([say(call("cellar", {"code": "K-1"})), "there"])
    agent = Agent(model, tools=TOOLS, playbook=Shelf("cellar"), events=[Recorder(tmp_path)])
    await agent.run("Where is K-1?", run_id="r")
    recording = load(find_run(tmp_path, "r"))
    shown = next(event for event in recording.events if isinstance(event, AdviceShown))
    assert shown.tools == ("cellar",)
    told = await replay(recording, Agent(ScriptedLlm([]), tools=TOOLS, playbook=Shelf("attic")))
    assert isinstance(told, Completed)
    assert told.output == "there"


async def test_a_recording_from_before_is_replayed_in_its_own_order(tmp_path: Path) -> None:
    agent = Agent(ScriptedLlm(["x"]), tools=TOOLS, playbook=Shelf(), events=[Recorder(tmp_path)])
    await agent.run("Where is K-1?", run_id="r")
    path = find_run(tmp_path, "r")
    assert '"tools":["' not in path.read_text(), "where no tool is named, an event is as it always was"
    told = await replay(load(path), Agent(ScriptedLlm([]), tools=TOOLS, playbook=Shelf("den")))
    assert isinstance(told, Completed)
    assert told.output == "x"


def _playbook(folder: Path, *bullets: PlaybookBullet) -> Playbook:
    playbook = Playbook.open(folder, words(), explore=1.0, holdback=0.0)
    for bullet in bullets:
        playbook.record(bullet, domain="general")
        playbook.promote(bullet.id, force=True)
    return playbook


async def test_a_way_moves_its_tools_and_a_rule_does_not(tmp_path: Path) -> None:
    way = PlaybookBullet(content="Call cellar.", tool_sequence=("cellar",), example_task="Where is wine K-1?")
    rule = PlaybookBullet(
        content="den: write code as K-1.",
        tool_sequence=("den",),
        example_task="Where is wine K-1?",
        lesson="format",
    )
    with _playbook(tmp_path, way, rule) as playbook:
        specs = [one.spec for one in TOOLS]
        advice = await advise(playbook, "Where is wine K-2?", run_id="r", domain="general", tools=specs)
        assert len(advice.shown) == 2
        assert advice.tools == ("cellar",)
        model = ScriptedLlm(["there"])
        await ReActGenerator(model, TOOLS, playbook=playbook).forward(TaskInput("t", "Where is wine K-2?"))
        assert offered_to(model)[0][:5] == ("greet", "cellar", "attic", "barn", "den")


def test_advice_without_tools_is_written_as_before() -> None:
    assert "tools" not in to_json(AdviceShown("r", 0, 1, 0.0, ("a",)))
    assert from_json(Advice, '{"text":"x","shown":["a"],"held":[],"trouble":""}').tools == ()
