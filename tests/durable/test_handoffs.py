"""Durable runs that are handed over, and whose tools change: killed after any step, they come to the same end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.agent.kit import ADD, add, call, say
from tests.durable.journals import first_of, run_on_journal
from wesichain.agent import Agent, Completed
from wesichain.core.events import AdviceShown
from wesichain.core.internal import HEADING
from wesichain.durable.versions import adopting, version_of
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import ToolSearch, tool

pytestmark = pytest.mark.quick

SEARCH = call("search_tools", {"query": "add numbers"}, id="s1")


@tool(approval=True)
async def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


class Program:
    """A first agent and a second, whose models go on with a script as far as it was not used."""

    def __init__(self) -> None:
        self.asked = 0
        self.advised = 0
        self.done: list[str] = []

    def retrieve(self, task: str, *, domain: str, k: int) -> list[Any]:
        """Advice, as a playbook gives it: another one each time."""
        self.advised += 1
        return [SimpleNamespace(id=f"b{self.advised}", text=f"advice {self.advised}", tool_sequence=())]

    def build(self, recorded: dict[str, str]) -> Agent[Any]:
        used = {int(name.removeprefix("ask ")) for name in recorded if name.startswith("ask ")}
        first = [reply for step, reply in ((1, say(call("transfer_to_other", id="t"))),) if step not in used]
        rest = [(2, say(SEARCH)), (3, say(ADD)), (4, say(content="three"))]

        def instructions() -> str:
            self.asked += 1
            return f"asked {self.asked} times"  # another text each time

        other: Agent[Any] = Agent(
            ScriptedLlm([reply for step, reply in rest if step not in used], model="other"),
            tools=[ToolSearch([add])],
            instructions=instructions,
            name="other",
            playbook=cast("Any", self),
        )
        return Agent(
            ScriptedLlm(first), name="first", instructions="first", handoffs=[other], clock=FakeClock()
        )


@pytest.mark.parametrize("kept", range(9))
async def test_a_run_that_was_killed_goes_on_to_the_same_end(kept: int) -> None:
    program = Program()
    whole, texts = await run_on_journal(program.build({}).runtime)
    assert isinstance(whole, Completed)
    assert [*texts] == [
        "ask 1",
        "call 1 t 1",
        "instruct 1",
        "advise 1",
        "ask 2",
        "call 2 s1 1",
        "ask 3",
        "call 3 add-id 1",
        "ask 4",
    ]
    left = first_of(texts, kept)
    again: Any = (await run_on_journal(program.build(left).runtime, left))[0]
    assert (again.output, again.info.agent, again.spent.steps) == ("three", "other", 4)
    assert [type(event) for event in again.events] == [type(event) for event in whole.events]
    # what was recorded is not asked again, though the function now says something else
    assert program.asked == (1 if kept >= 3 else 2)
    assert program.advised == (1 if kept >= 4 else 2)
    asked, advised = 1 if kept >= 3 else 2, 1 if kept >= 4 else 2
    assert again.messages[0].text == f"asked {asked} times\n\n{HEADING}\n- advice {advised}"
    (shown,) = [event for event in again.events if isinstance(event, AdviceShown)]
    assert (shown.agent, shown.ids) == ("other", (f"b{advised}",))


@pytest.mark.parametrize("kept", [5, 7])
async def test_a_new_program_goes_on_behind_a_handoff_without_a_tool_that_is_gone(kept: int) -> None:
    def program(tools: list[Any]) -> Any:
        replies = [(2, say(ADD)), (3, say(call("add", {"a": 2, "b": 2}, id="b"))), (4, say(content="end"))]
        rest = [reply for number, reply in replies if f"ask {number}" not in left]
        first = [] if "ask 1" in left else [say(call("transfer_to_other", id="t"))]
        other: Agent[Any] = Agent(ScriptedLlm(rest), tools=tools, name="other")
        return Agent(ScriptedLlm(first), name="first", handoffs=[other], clock=FakeClock()).runtime

    left: dict[str, str] = {}
    whole, texts = await run_on_journal(program([add]))
    assert [*texts][3:] == ["ask 2", "call 2 add-id 1", "ask 3", "call 3 b 1", "ask 4"]
    left = first_of(texts, kept)
    known = {"t", "add-id", "b"}
    runtime = adopting(program([]), known=known, recorded={"add-id", "b"} if kept == 7 else {"add-id"})
    again, _ = await run_on_journal(runtime, left)
    heard = [message.text for message in again.messages if message.role.value == "tool"][1:]
    assert isinstance(again, Completed)
    assert [message.text for message in whole.messages if message.role.value == "tool"][1:] == ["3", "4"]
    gone = "The tool 'add' is there no more"
    assert heard[0] == "3"  # what was done stands
    assert heard[1] == "4" if kept == 7 else heard[1].startswith(gone) or "there is no tool" in heard[1]


def desk(*replies: Any, bill: str = "You are billing.") -> Agent[Any]:
    other: Agent[Any] = Agent(ScriptedLlm(replies), tools=[refund], instructions=bill, name="billing")
    return Agent(ScriptedLlm([say(call("transfer_to_billing"))]), name="triage", handoffs=[other])


def test_the_agents_that_a_run_is_handed_to_are_a_part_of_the_program() -> None:
    assert version_of(desk()) == version_of(desk())
    assert version_of(desk()) != version_of(desk(bill="You know bills."))
    plain: Agent[Any] = Agent(ScriptedLlm([]), tools=[ToolSearch([add])])
    more: Agent[Any] = Agent(ScriptedLlm([]), tools=[ToolSearch([refund])])
    assert version_of(plain) != version_of(more)
