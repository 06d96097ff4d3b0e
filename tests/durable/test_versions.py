"""Versions: a program changes while runs are under way, and none of them fails for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import sampled
from tests.durable.databases import database
from tests.durable.test_agent import Slow, add, deleter, served, turns
from tests.durable.test_agent import cut_off as cut_off_at
from tests.durable.test_graph import graph
from wesichain import Agent, ToolContext, tool
from wesichain.core import LlmRequest, Role
from wesichain.durable import DurableAgent, DurableGraph, DurableRuns, RunState
from wesichain.durable.versions import version_of
from wesichain.durable.workflow_ids import restore, shorten
from wesichain.errors import (
    ConfigError,
    DurableError,
    ReplayMismatchError,
    WesichainError,
)
from wesichain.kit import CodeMode, Subagents
from wesichain.testing import FunctionLlm, calls
from wesichain.tools import ToolSearch

OLD: dict[str, Any] = {"instructions": "Be brief."}
CHANGES = [
    pytest.param({"instructions": "Be terse."}, id="another-prompt"),
    pytest.param({"more": True}, id="a-tool-more"),
    pytest.param({"less": True}, id="a-tool-less"),
    pytest.param({"other": True}, id="a-tool-with-other-parameters"),
]


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@tool(name="add")
def add_three(a: int, b: int, c: int) -> int:
    """Add three numbers."""
    return a + b + c


class Desk:
    """A model whose second call waits until it may go on, so that a program can change in between."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.seen: list[str] = []
        self.added = 0
        self.is_cut = True

    def agent(
        self,
        *,
        instructions: str = "Be brief.",
        more: bool = False,
        less: bool = False,
        other: bool = False,
    ) -> Agent[Any, str]:
        async def reply(request: LlmRequest) -> Any:
            turn = sum(message.role is Role.ASSISTANT for message in request.messages)
            if turn == 1:
                if self.is_cut:
                    self.reached.set()
                    await asyncio.sleep(3600)
                self.seen.append(request.messages[0].text)
            return [calls(("add", {"a": 1, "b": 2})), "three"][turn]

        desk = self

        @tool(name="add")
        def counted(a: int, b: int, ctx: ToolContext) -> int:
            """Add two numbers."""
            desk.added += 1
            return a + b

        tools: list[Any] = [] if less else [add_three if other else counted]
        return Agent(
            FunctionLlm(reply), tools=[*tools, multiply] if more else tools, instructions=instructions
        )


async def cut_off(url: str, desk: Desk) -> str:
    """Begin a run, and stop its worker in the middle; returns its version."""
    old = DurableAgent(desk.agent(**OLD), "agent", database_url=url)
    async with served(old):
        await old.enqueue("1 + 2?", run_id="r")
        await asyncio.wait_for(desk.reached.wait(), 30)
    desk.is_cut = False
    return old.version


async def test_a_run_waits_for_a_worker_of_its_version(url: str) -> None:
    desk = Desk()
    version = await cut_off(url, desk)
    new = DurableAgent(desk.agent(instructions="Be terse."), "agent", database_url=url)
    async with served(new):
        with pytest.raises(TimeoutError):
            await new.result("r", timeout=0.7)
        waiting = await new.show("r")
        assert (waiting.status, waiting.version, waiting.served) == (RunState.PENDING, version, False)
        status = await new.status("r")
        assert status == "pending" == f"{status}"
        assert status == RunState.PENDING
        assert hash(status) == hash("pending")
        assert (status.state, status.value, status.version) == (RunState.PENDING, "pending", version)
        assert not status.served
        assert new.version != version
    old = DurableAgent(desk.agent(**OLD), "agent", database_url=url)
    async with served(old):
        assert (await old.result("r", timeout=30)).output == "three"
        assert (await old.show("r")).served
    assert desk.seen[-1] == OLD["instructions"]


@pytest.mark.sampled
@pytest.mark.parametrize("changed", sampled(CHANGES, 2))
async def test_a_run_is_adopted_from_its_last_finished_step(url: str, changed: dict[str, Any]) -> None:
    desk = Desk()
    await cut_off(url, desk)
    new = DurableAgent(
        desk.agent(**{**OLD, **changed}), "agent", database_url=url, on_change="adopt", lease=1.0
    )
    async with served(new):
        result = await new.result("r", timeout=30)
    assert result.output == "three"
    assert desk.added == 1, "what was done is not done again"
    assert [message.content for message in result.messages if message.role is Role.TOOL] == ["3"]
    assert desk.seen == [changed.get("instructions", OLD["instructions"])], (
        "the new prompt holds from here on"
    )
    assert (await new.show("r")).version == new.version
    await new.close()


async def test_a_call_that_was_under_way_when_its_tool_left_is_not_run_and_the_model_is_told(
    url: str,
) -> None:
    begun = asyncio.Event()

    @tool
    async def stay() -> str:
        """Stay."""
        begun.set()
        await asyncio.sleep(3600)
        return "stayed"

    replies = (calls(("stay", {})), "gone on")
    old = DurableAgent(Agent(turns(*replies), tools=[stay]), "agent", database_url=url)
    async with served(old):
        await old.enqueue("go", run_id="r")
        await asyncio.wait_for(begun.wait(), 30)
    new = DurableAgent(Agent(turns(*replies)), "agent", database_url=url, on_change="adopt", lease=1.0)
    async with served(new):
        result = await new.result("r", timeout=30)
    assert result.output == "gone on"
    assert "was removed from the program" in result.messages[-2].content


async def test_a_version_that_is_named_says_that_the_program_is_the_same(url: str) -> None:
    desk = Desk()
    old = DurableAgent(desk.agent(), "agent", database_url=url, version="2024-05")
    async with served(old):
        await old.enqueue("1 + 2?", run_id="r")
        await asyncio.wait_for(desk.reached.wait(), 30)
    desk.is_cut = False
    new = DurableAgent(desk.agent(instructions="Be terse."), "agent", database_url=url, version="2024-05")
    async with served(new):
        assert (await new.result("r", timeout=30)).output == "three"
        assert (await new.show("r")).version == "2024-05"


@pytest.mark.parametrize(
    "give",
    [
        pytest.param(lambda inner: {"tools": [inner.as_tool()]}, id="tool"),
        pytest.param(lambda inner: {"tools": [ToolSearch([inner.as_tool()])]}, id="search"),
        pytest.param(lambda inner: {"capabilities": [Subagents({"inner": inner})]}, id="subagents"),
        pytest.param(lambda inner: {"capabilities": [CodeMode([inner.as_tool()])]}, id="code-mode"),
    ],
)
def test_the_program_of_an_agent_below_is_a_part_of_the_version(give: Any) -> None:
    def versions(instructions: str, *tools: Any) -> tuple[str, str]:
        inner = Agent(turns("x"), tools=[*tools], instructions=instructions, name="inner")
        middle = Agent(turns("x"), **give(inner), name="middle")
        outer = Agent(turns("x"), tools=[middle.as_tool()], name="outer")
        return version_of(outer), version_of(inner)

    found = [versions("a"), versions("b"), versions("a", multiply)]
    assert len({outer for outer, _ in found}) == 3, "at any depth"
    assert versions("a") == found[0]


async def test_a_change_of_an_agent_below_leaves_runs_with_their_program_or_is_adopted(url: str) -> None:
    def outer(*tools: Any) -> Agent[str]:
        replies = turns(calls(("multiply", {"a": 1, "b": 2})), "gold") if tools else turns("none", "gold")
        miner = Agent(replies, tools=[*tools], name="miner")

        async def reply(request: LlmRequest) -> Any:
            if not any(message.role is Role.ASSISTANT for message in request.messages):
                return calls(("miner", {"task": "dig"}))
            if tools:
                await asyncio.sleep(3600)  # it is cut off here, not at its end
            return "rich"

        return Agent(FunctionLlm(reply), tools=[miner.as_tool()], name="boss")

    await cut_off_at(url, outer(multiply), after=13)
    async with DurableRuns(url) as runs:
        await runs.resume("r")
    new = DurableAgent(outer(), "agent", database_url=url)
    async with served(new):
        with pytest.raises(TimeoutError):
            await new.result("r", timeout=0.7)
        assert await new.status("r") == "pending"
    adopting = DurableAgent(outer(), "agent", database_url=url, on_change="adopt")
    async with served(adopting):
        assert (await adopting.result("r", timeout=30)).output == "rich"


def test_the_version_is_that_of_instructions_tools_and_output() -> None:
    def version(**options: Any) -> str:
        given = {"tools": [add], "instructions": "Be brief.", **options}
        return DurableAgent(Agent(turns("x"), **given)).version

    same = version()
    assert version() == same == version(name="other")
    assert len(same) == 12
    others = [version(instructions="Be terse."), version(tools=[]), version(output_type=int)]
    assert len({same, *others}) == 4


@pytest.mark.parametrize(
    "options", [{"on_change": "never"}, {"version": "a b"}, {"version": ""}, {"max_recoveries": -1}]
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DurableAgent(Agent(turns("x")), **options)


# --- what an ending adds to the one before -----------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -0.5]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(now=JSON, before=JSON)
def test_what_was_shortened_is_restored(now: Any, before: Any) -> None:
    found = restore(shorten(now, before), before)
    assert found == now
    assert repr(found) == repr(now)  # 1, 1.0 and true are three


@given(start=st.lists(JSON, min_size=1, max_size=6), more=st.lists(JSON, max_size=3))
def test_a_list_that_grows_is_kept_as_what_is_new(start: list[Any], more: list[Any]) -> None:
    short = shorten({"messages": [*start, *more], "n": 1}, {"messages": start, "n": 1})
    kept = short["of"]["messages"] if "of" in short else {"same": True}
    assert kept == ({"first": len(start), "then": more} if more else {"same": True})


async def test_a_program_that_is_not_the_same_again_is_refused_in_every_process(url: str) -> None:
    slow = Slow("model 1")
    async with served(DurableAgent(slow.agent(), "slow", database_url=url)) as durable:
        await durable.enqueue("work", run_id="r")
        await slow.begun.wait()
    with database(url) as db:  # as if another request had been recorded
        db.execute(
            'UPDATE operation_outputs SET output = REPLACE(output, \'"asked":"\', \'"asked":"0\') '
            "WHERE function_name = 'ask 1'"
        )
    for _ in range(2):
        async with DurableAgent(slow.agent(), "slow", database_url=url) as durable:
            with pytest.raises(
                ReplayMismatchError, match="step 'ask 1' of this run was recorded with another input"
            ):
                await durable.resume("r")


async def test_a_call_that_an_older_version_did_not_run_is_not_run_by_the_one_that_adopts_it(
    url: str,
) -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    def program(*tools: Any, waits: bool) -> Agent[Any, str]:
        async def reply(request: LlmRequest) -> Any:
            turn = sum(message.role is Role.ASSISTANT for message in request.messages)
            if turn == 2 and waits:
                reached.set()
                await asyncio.sleep(3600)
            return [calls(("add", {"a": 1, "b": 2}), ("look", {})), calls(("add", {"a": 3, "b": 4})), "done"][
                turn
            ]

        return Agent(FunctionLlm(reply), tools=[add, *tools])

    reached = asyncio.Event()
    async with served(DurableAgent(program(waits=True), "a", database_url=url)) as old:
        await old.enqueue("go", run_id="r")
        await asyncio.wait_for(reached.wait(), 30)
    made = DurableAgent(program(look, waits=False), "a", database_url=url, on_change="adopt", lease=1.0)
    async with served(made) as new:
        result = await new.result("r", timeout=30)
    assert (result.output, ran) == ("done", [])
    shown = [message.text for message in result.messages if message.role is Role.TOOL]
    assert any("continued without running this call" in text for text in shown), shown


async def test_runs_that_an_older_version_ended_are_explained_by_their_endings(
    url: str, tmp_path: Path
) -> None:
    def refuse(_: LlmRequest) -> str:
        raise ConfigError("there is no key")

    asking = graph(tmp_path, asks=True)
    async with (
        DurableAgent(deleter(), "deleter", database_url=url) as waits,
        DurableAgent(Agent(FunctionLlm(lambda _: ValueError("ill"))), "ill", database_url=url) as fails,
        DurableAgent(Agent(FunctionLlm(refuse)), "refused", database_url=url) as refused,
        DurableGraph[Any](asking, "notes", database_url=url) as notes,
        DurableRuns(url) as runs,
    ):
        for durable in (waits, fails, refused, notes):
            with pytest.raises(WesichainError):
                await durable.run(cast("Any", {} if durable is notes else "hi"), run_id=durable.name)
        explained = {run.run_id: run.error for run in await runs.list()}
        inbox = {(item.run_id, item.token, item.call.name) for item in await runs.pending()}
        assert len(inbox) == 3
        with database(url) as db:
            db.execute("UPDATE wesichain_runs SET noted = NULL, error = NULL, waiting = NULL")
        assert {run.run_id: run.error for run in await runs.list()} == explained
        assert {(item.run_id, item.token, item.call.name) for item in await runs.pending()} == inbox
        with database(url) as db:
            db.execute("UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'")
        why = "the process that ran it died too often: it is not run again"
        assert {run.error for run in await runs.list()} == {why}
        with pytest.raises(
            DurableError, match=f"the run 'ill' has failed: {why}; resume it to try once more"
        ):
            await fails.outcome("ill")
