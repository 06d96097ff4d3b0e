"""Playbooks and handoffs: who takes a run over is shown its own advice, and its part teaches its own playbook."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.kit import call, check_events, say
from tests.learning.kit import words
from wesichain import Agent
from wesichain.agent import Completed, replay
from wesichain.core import StepStarted, from_json, to_json
from wesichain.core.events import AdviceShown, HandedOff
from wesichain.errors import ReplayMismatchError
from wesichain.learning import Feedback, Learner, Playbook, TaskOutput
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, find_run, load


class Shelf:
    """A playbook that says another thing each time it is asked, and remembers what it was asked."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[tuple[str, str]] = []

    def retrieve(self, task: str, *, domain: str, k: int) -> list[Any]:
        self.asked.append((task, domain))
        number = len(self.asked)
        text = f"Advice {number} for {self.word}."
        return [SimpleNamespace(id=f"{self.word}-{number}", text=text, tool_sequence=())][:k]


@tool
async def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


@tool(approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


def to(name: str) -> Any:
    return call(f"transfer_to_{name}", id=f"to-{name}")


def desk(
    *rest: Any, clerk: Any = None, cashier: Any = None, tools: Any = (look,), **options: Any
) -> Agent[Any]:
    """A clerk that hands over to a cashier, each with a playbook and a domain of its own."""
    second = Agent(
        ScriptedLlm([*rest]),
        name="cashier",
        instructions="You pay.",
        tools=[*tools],
        playbook=cashier,
        domain="money",
    )
    return Agent(
        ScriptedLlm([say(to("cashier"))]),
        name="clerk",
        instructions="You greet.",
        handoffs=[second],
        playbook=clerk,
        domain="desk",
        **options,
    )


def advice_in(events: Any) -> list[tuple[str, int, tuple[str, ...], str]]:
    shown = [event for event in events if isinstance(event, AdviceShown)]
    return [(event.agent, event.step_id, event.ids, event.text.splitlines()[-1]) for event in shown]


async def test_each_agent_is_shown_its_own_advice_when_it_takes_over() -> None:
    clerk, cashier = Shelf("clerk"), Shelf("cashier")
    agent = desk("done", clerk=clerk, cashier=cashier)
    result = await agent.run("Pay me.")
    assert (clerk.asked, cashier.asked) == ([("Pay me.", "desk")], [("Pay me.", "money")])
    assert advice_in(result.events) == [
        ("", 0, ("clerk-1",), "- Advice 1 for clerk."),
        ("cashier", 1, ("cashier-1",), "- Advice 1 for cashier."),
    ]
    kinds = [type(event) for event in result.events]
    assert kinds.index(HandedOff) + 1 == len(kinds) - 1 - kinds[::-1].index(AdviceShown)
    first, second = (event.messages[0].text for event in result.events if isinstance(event, StepStarted))
    assert first.startswith("You greet.")
    assert "for cashier" not in first
    assert second.startswith("You pay.")
    assert second.endswith("- Advice 1 for cashier.")
    assert "for clerk" not in second, "no instructions, and no advice, are carried over"
    check_events(result.events)


async def test_a_playbook_that_is_away_stops_nobody() -> None:
    class Away:
        def retrieve(self, task: str, *, domain: str, k: int) -> Any:
            raise OSError("away")

    result = await desk("done", cashier=Away()).run("Pay me.")
    assert result.output == "done"
    assert [(event.agent, event.ids) for event in result.events if isinstance(event, AdviceShown)] == [
        ("cashier", ())
    ]


async def test_who_is_handed_back_a_run_is_shown_what_is_known_then() -> None:
    clerk: Any = Shelf("clerk")
    cashier: Any = Shelf("cashier")
    second = Agent(ScriptedLlm([say(to("clerk"))]), name="cashier", playbook=cashier)
    first = Agent(ScriptedLlm([say(to("cashier")), "done"]), name="clerk", handoffs=[second], playbook=clerk)
    second.add_handoff(first)
    result = await first.run("q")
    assert [(who, ids) for who, _, ids, _ in advice_in(result.events)] == [
        ("", ("clerk-1",)),
        ("cashier", ("cashier-1",)),
        ("clerk", ("clerk-2",)),
    ]
    assert TaskOutput.of(result, agent="clerk").metadata["shown"] == ["clerk-1", "clerk-2"]


async def test_a_recording_is_replayed_with_the_advice_of_then(tmp_path: Path) -> None:
    clerk, cashier = Shelf("clerk"), Shelf("cashier")
    steps = [say(call("look", {"place": "till"})), "done"]
    result = await desk(*steps, clerk=clerk, cashier=cashier, events=Recorder(tmp_path)).run("q")
    recording = load(find_run(tmp_path, result.outcome.run_id))
    again = await replay(recording, desk(clerk=clerk, cashier=cashier))
    assert isinstance(again, Completed)
    assert to_json([*again.events]) == to_json([*recording.events])
    assert (len(clerk.asked), len(cashier.asked)) == (1, 1), "nobody was asked again"
    with pytest.raises(ReplayMismatchError):
        await replay(recording, desk(clerk=clerk))


# --- what such a run teaches -------------------------------------------------------------------------


async def test_each_part_teaches_the_playbook_of_its_agent(tmp_path: Path) -> None:
    """A's lessons are in A's playbook and domain, B's in B's, whoever else acted in the run."""
    books = {
        name: Playbook.open(tmp_path / name, words(), explore=1, holdback=0) for name in ("clerk", "cashier")
    }
    learners = {name: Learner(playbook=book) for name, book in books.items()}
    domains = {"clerk": "desk", "cashier": "money"}

    @tool
    async def greet(name: str) -> str:
        """Greet."""
        return "hello"

    def clerk_says(request: Any) -> Any:
        return (
            say(call("greet", {"name": "Ada"}, id="g")) if len(request.messages) < 3 else say(to("cashier"))
        )

    for number in range(8):
        cashier = Agent(
            ScriptedLlm([say(call("look", {"place": "till"})), "done"]),
            name="cashier",
            tools=[look],
            playbook=books["cashier"],
            domain="money",
        )
        clerk = Agent(
            FunctionLlm(clerk_says),
            name="clerk",
            tools=[greet],
            handoffs=[cashier],
            playbook=books["clerk"],
            domain="desk",
        )
        result = await clerk.run("Pay the rent of May.", run_id=f"r{number}")
        with pytest.raises(ValueError, match="choose a part with agent='cashier'"):
            TaskOutput.of(result)
        for name, learner in learners.items():
            learner.submit(result, feedback=Feedback(label=True), domain=domains[name], agent=name)
            await learner.drain()
    found = {name: book.bullets(domains[name]) for name, book in books.items()}
    tools = {name: {used for one in kept for used in one.tool_sequence} for name, kept in found.items()}
    assert tools["cashier"] == {"look"}
    assert "look" not in tools["clerk"]
    assert "greet" in tools["clerk"]
    for name, book in books.items():
        other = domains["cashier" if name == "clerk" else "clerk"]
        assert not book.bullets(other)
        evidence = [book.evidence(one.id) for one in found[name]]
        assert any(one.shown_runs for one in evidence), "later runs were shown what earlier ones taught"
        book.close()


async def test_a_part_has_the_steps_tools_and_advice_of_its_agent_alone() -> None:
    agent = desk(say(call("look", {"place": "till"})), "done", clerk=Shelf("clerk"), cashier=Shelf("cashier"))
    result = await agent.run("q", run_id="r")
    clerk, cashier = (TaskOutput.of(result, agent=name) for name in ("clerk", "cashier"))
    assert (clerk.task_id, cashier.task_id) == ("r/clerk", "r/cashier")
    assert (clerk.tools_used, cashier.tools_used) == (("transfer_to_cashier",), ("look",))
    assert (clerk.metadata["shown"], cashier.metadata["shown"]) == (["clerk-1"], ["cashier-1"])
    assert [*cashier.metadata["tools"]] == ["look"]
    assert (clerk.total_iterations, cashier.total_iterations) == (1, 2)
    assert clerk.answer == cashier.answer == "done"
    with pytest.raises(
        ValueError, match="'nobody' did not act in the run r; the agents are 'clerk', 'cashier'"
    ):
        TaskOutput.of(result, agent="nobody")
    alone = await Agent(ScriptedLlm(["y"]), name="one").run("q")
    assert TaskOutput.of(alone, agent="one").answer == "y"


def test_an_event_of_an_earlier_version_names_nobody() -> None:
    old = '{"kind":"advice_shown","run_id":"r","step_id":0,"seq":1,"at":0.0,"ids":["a"]}'
    assert from_json(AdviceShown, old).agent == ""
    assert "agent" not in json.loads(to_json(AdviceShown("r", 0, 1, 0.0, ("a",))))


class Gone:
    """A playbook whose store cannot be reached."""

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> list[Any]:
        raise ConnectionError("the store cannot be reached")


async def test_a_playbook_that_fails_costs_its_advice_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    result = await Agent(ScriptedLlm(["Done."]), playbook=Gone()).run("Look.")
    assert result.output == "Done."
    run_id = result.events[0].run_id
    trouble = "ConnectionError: the store cannot be reached"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"run {run_id} continues without the playbook's advice: {trouble}")
    ]
