"""The caller's world in durable runs: deps made where a run runs, checks and summaries that are not repeated."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

from tests.conftest import ROOT
from tests.draws import sampled
from tests.durable.test_agent import turns
from tests.warm import python
from wesichain import Agent, RunContext, ToolContext, tool
from wesichain.agent import Approve, Interrupted
from wesichain.context import Summarise
from wesichain.core import Event, LlmRequest
from wesichain.durable import DurableAgent, DurableGraph
from wesichain.errors import ConfigError, DurableError, GraphInterruptedError, RunInterruptedError
from wesichain.graph import Graph, GraphBuilder, GraphContext
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm, calls

CANARY = "canary-7f3a1c"


@dataclass
class World:
    """What a run is given: where it notes what was done, and something that nobody may keep."""

    folder: Path
    secret: str = CANARY
    run_id: str = ""

    def note(self, what: str) -> None:
        with (self.folder / "effects").open("a") as file:
            file.write(f"{what}\n")


class Brake:
    """Kills the process at an event of a kind, the one of this number."""

    def __init__(self, kind: str, number: int = 1) -> None:
        self._kind, self._left = kind, number

    def emit(self, event: Event) -> None:
        self._left -= event.kind == self._kind
        if not self._left and self._kind:
            os.kill(os.getpid(), signal.SIGKILL)


def office(*, approval: bool = False) -> Agent[World, str]:
    """An agent that needs its world everywhere: instructions, a rule, a tool, an agent below."""

    def instruct(ctx: RunContext[World]) -> str:
        ctx.deps.note("instructions")
        return "Be brief."

    def needs_word(ctx: RunContext[World], args: Any) -> bool:
        return approval and ctx.deps.secret == CANARY

    @tool(approval=needs_word)
    def file(name: str, ctx: ToolContext[World]) -> str:
        """File a paper."""
        ctx.deps.note(f"filed {name} in {ctx.deps.run_id}")
        return "filed"

    clerk = Agent(
        turns(calls(("file", {"name": "below"})), "ok"), deps_type=World, tools=[file], name="clerk"
    )
    return Agent(
        turns(calls(("file", {"name": "top"})), calls(("clerk", {"task": "x"})), "all filed"),
        deps_type=World,
        tools=[file, clerk.as_tool()],
        instructions=instruct,
    )


def checked(folder: Path) -> Agent[Any, str]:
    """An agent whose answers are checked, with an effect; the first one is refused."""

    def check(output: str) -> str:
        World(folder).note(f"check {output}")
        if output == "rough":
            raise ValueError("say it politely")
        return output.upper()

    return Agent(turns("rough", "polite"), output_checks=[check])


def summing(folder: Path) -> Agent[Any, str]:
    """An agent whose long results are summed up by a model of its own, which notes that it was asked."""

    def sum_up(_: LlmRequest) -> str:
        World(folder).note("summary")
        return "It was long."

    @tool
    def read(page: int) -> str:
        """Read."""
        return f"page {page}: " + "word " * 400

    number = [0]

    def reply(_: LlmRequest) -> Any:
        number[0] = len((folder / "asked").read_text()) + 1 if (folder / "asked").exists() else 1
        (folder / "asked").write_text("." * number[0])
        return calls(("read", {"page": number[0]})) if number[0] < 4 else "read"

    view = Summarise(over_tokens=900, keep_tokens=300, llm=FunctionLlm(sum_up))
    return Agent(FunctionLlm(reply), tools=[read], context=[view])


MAKE = {"office": lambda folder: office(), "checked": checked, "summing": summing}


async def run_until(folder: Path, url: str, which: str, kind: str = "", number: int = 1) -> Any:
    async def deps(run_id: str) -> World:
        await asyncio.sleep(0)
        made = World(folder, run_id=run_id)
        made.note("deps")
        return made

    agent: Agent[Any, str] = MAKE[which](folder)
    give: Any = deps if which == "office" else None
    brake = Brake(kind, number)
    async with DurableAgent(agent, "a", deps=give, database_url=url, lease=1.0, events=brake) as durable:
        return await durable.run("go", run_id="r")


def kill(folder: Path, url: str, which: str, kind: str, number: int = 1) -> None:
    """Run it in a process that is killed at an event."""
    said = f"Path({str(folder)!r}), {url!r}, {which!r}, {kind!r}, {number}"
    code = (
        f"import asyncio\nfrom pathlib import Path\nfrom tests.durable.test_world import run_until\n"
        f"asyncio.run(run_until({said}))"
    )
    done = subprocess.run([*python(), "-c", code], check=False, cwd=ROOT, timeout=120)
    assert done.returncode == -signal.SIGKILL


def effects(folder: Path) -> list[str]:
    return (folder / "effects").read_text().splitlines()


async def test_deps_are_made_anew_in_the_process_that_goes_on_and_are_kept_nowhere(
    url: str, tmp_path: Path
) -> None:
    kill(tmp_path, url, "office", "tool_completed")
    assert effects(tmp_path) == ["deps", "instructions", "filed top in r"]
    result = await run_until(tmp_path, url, "office")
    assert result.output == "all filed"
    assert effects(tmp_path)[3:] == ["deps", "filed below in r"], "instructions and the first call are known"
    for path in tmp_path.glob("runs.db*"):
        assert CANARY.encode() not in path.read_bytes()


async def test_a_resumed_run_has_deps_and_one_that_was_cancelled_is_looked_at_without(
    url: str, tmp_path: Path
) -> None:
    made: list[str] = []

    def deps() -> World:
        made.append("deps")
        return World(tmp_path)

    async with DurableAgent(office(approval=True), "a", deps=deps, database_url=url) as durable:
        for run_id in ("r", "s"):
            with pytest.raises(RunInterruptedError):
                await durable.run("go", run_id=run_id)
    async with DurableAgent(office(approval=True), "a", deps=deps, database_url=url) as elsewhere:
        (waiting,) = await elsewhere.pending("r")
        await elsewhere.approve("r", waiting.token, Approve())
        with pytest.raises(RunInterruptedError):  # the clerk's own paper
            await elsewhere.resume("r")
        (waiting,) = await elsewhere.pending("r")
        assert waiting.scope == ("agent",)
        await elsewhere.approve("r", waiting.token, Approve())
        assert (await elsewhere.resume("r")).output == "all filed"
        assert len(made) == 4, "two runs began, and one went on twice"
    async with DurableAgent(office(approval=True), "a", database_url=url) as nobody:
        await nobody.cancel("s")
        outcome = await nobody.outcome("s")
        assert isinstance(outcome, Interrupted)
        assert outcome.reason == "the run was cancelled"


async def test_deps_that_are_missing_or_wrong_end_the_run_until_they_are_there(
    url: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="pass a function, without parameters or of the run's id"):
        DurableAgent(office(), "a", deps=World(tmp_path), database_url=url)  # type: ignore[arg-type]

    def away() -> World:
        raise ConnectionError("the directory is away")

    wrong: list[tuple[Any, str]] = [
        (None, r"needs deps of type World: build DurableAgent\(agent, deps=function\)"),
        (lambda: "text", "needs deps of type World, and was given str"),
        (away, "the directory is away"),
    ]
    for number, (deps, said) in enumerate(wrong):
        async with DurableAgent(office(), "a", deps=deps, database_url=url) as durable:
            with pytest.raises(DurableError, match=said):
                await durable.run("go", run_id=f"r{number}")
            assert await durable.status(f"r{number}") == "failed"
    async with DurableAgent(office(), "a", deps=lambda: World(tmp_path), database_url=url) as durable:
        for number in range(len(wrong)):
            assert (await durable.resume(f"r{number}")).output == "all filed"


class Paper(TypedDict, total=False):
    input: str
    output: str


def desk(folder: Path) -> Graph[Any]:
    """A graph whose nodes need the caller's world: a plain one, and an agent that asks before it files."""

    def stamp(state: Paper, ctx: GraphContext[World]) -> Any:
        ctx.context.note(f"stamped in {ctx.context.run_id}")
        return {"input": "go"}

    builder = GraphBuilder(Paper, context_type=World).add_node("stamp", stamp)
    builder.add_node("office", office(approval=True)).set_entry("stamp").add_edge("stamp", "office")
    return builder.build(SqliteCheckpointer(folder / "threads.db"))


async def test_a_graph_s_context_is_made_where_its_run_goes_on_and_reaches_the_agents_in_its_nodes(
    url: str, tmp_path: Path
) -> None:
    async def world(run_id: str) -> World:
        await asyncio.sleep(0)
        return World(tmp_path, run_id=run_id)

    def durable(context: Any = world) -> DurableGraph[Any]:
        return DurableGraph[Any](desk(tmp_path), "desk", context=context, database_url=url)

    with pytest.raises(ConfigError, match=r"context=.* of a DurableGraph is called for each run"):
        durable(World(tmp_path))
    async with durable(lambda: "text") as wrong:
        with pytest.raises(DurableError, match="built with context_type=World"):
            await wrong.run({}, run_id="r")
        assert await wrong.status("r") == "failed"
    async with durable() as first:
        with pytest.raises(GraphInterruptedError):
            await first.resume("r")
        (waiting,) = await first.pending("r")
    async with durable().configured(concurrency=1) as elsewhere:
        await elsewhere.approve("r", waiting.token, Approve())
        with pytest.raises(GraphInterruptedError):  # the clerk's own paper
            await elsewhere.run({}, run_id="r")
        (again,) = await elsewhere.pending("r")
        await elsewhere.approve("r", again.token, Approve())
        assert (await elsewhere.run({}, run_id="r"))["output"] == "all filed"
    assert effects(tmp_path) == ["stamped in r", "instructions", "filed top in r", "filed below in r"]
    for path in (*tmp_path.glob("runs.db*"), *tmp_path.glob("threads.db*")):
        assert CANARY.encode() not in path.read_bytes()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("at", "before", "after"),
    sampled(
        [
            pytest.param(
                ("step_failed", 1), ["check rough"], ["check polite"], id="after-the-first-was-refused"
            ),
            pytest.param(
                ("step_started", 2), ["check rough"], ["check polite"], id="before-it-is-said-better"
            ),
            pytest.param(
                ("run_completed", 1), ["check rough", "check polite"], [], id="after-the-second-has-passed"
            ),
        ],
        1,
    ),
)
async def test_checks_of_an_answer_are_not_repeated(
    url: str, tmp_path: Path, at: tuple[str, int], before: list[str], after: list[str]
) -> None:
    kill(tmp_path, url, "checked", *at)
    assert effects(tmp_path) == before
    result = await run_until(tmp_path, url, "checked")
    assert result.output == "POLITE", "as the check has left it"
    assert effects(tmp_path) == before + after
    whole = await checked(tmp_path).run("go")
    assert [message.text for message in result.messages] == [message.text for message in whole.messages]


async def test_a_check_that_breaks_its_contract_is_run_again_when_the_run_is_resumed(url: str) -> None:
    tried: list[str] = []

    def check(output: Any) -> Any:
        tried.append(output)
        return object() if len(tried) == 1 else output

    agent = Agent(turns("fine"), output_checks=[check])
    async with DurableAgent(agent, "a", database_url=url) as durable:
        with pytest.raises(DurableError, match="return the output"):
            await durable.run("go", run_id="r")
        assert (await durable.resume("r")).output == "fine"
    assert tried == ["fine", "fine"]


async def test_the_model_call_of_a_summary_is_not_repeated(url: str, tmp_path: Path) -> None:
    kill(tmp_path, url, "summing", "context_reduced")
    assert effects(tmp_path) == ["summary"]
    asked = (tmp_path / "asked").read_text()
    result = await run_until(tmp_path, url, "summing")
    assert result.output == "read"
    told = [event for event in result.events if event.kind == "context_reduced"]
    assert len(effects(tmp_path)) == len(told) >= 1
    assert len((tmp_path / "asked").read_text()) == 4 > len(asked), "nor is any other"
    alone = tmp_path / "alone"
    alone.mkdir()
    whole = await summing(alone).run("go")
    assert len(effects(alone)) == len(told)
    assert [message.text for message in result.messages] == [message.text for message in whole.messages]
    assert result.usage == whole.usage, "and it is paid for once"
