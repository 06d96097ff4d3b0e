"""`effect="once"` in graphs: no effect occurs twice after a kill, a retry or a second resume."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typing_extensions import override

from tests.conftest import ROOT
from tests.draws import chosen, sampled
from tests.graph.killed_run import open_store
from tests.graph.kit import stopped
from tests.graph.react.once_run import THREAD, Model, build
from tests.warm import python
from wesichain import Agent, Approve, ReActAgentNode, tool
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall
from wesichain.errors import CheckpointError, GraphError
from wesichain.graph import ExecutionOptions, GraphBuilder, MemoryCheckpointer, RetryPolicy, react_graph
from wesichain.policy import FailFast
from wesichain.testing import FunctionLlm
from wesichain.tools import ToolContext

KINDS = ("node", "agent", "inside", "steps", "steps-inside")
POINTS = (
    "before:tool",
    "in:tool",
    *[f"append:{number}" for number in range(2, 8)],
    *[f"appended:{number}" for number in range(1, 8)],
)


def paid(effects: Path) -> int:
    return effects.read_text().count("paid") if effects.exists() else 0


async def kill_and_resume(where: str, effects: Path, kind: str, point: str) -> None:
    command = [*python(), "-m", "tests.graph.react.once_run", where, str(effects), kind, point]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    before = paid(effects)
    store: Any = open_store(where)
    graph = build(store, effects, kind)
    try:
        if died.returncode != -signal.SIGKILL:  # the run has fewer writes
            assert died.returncode == 0, died.stderr
        done = await graph.resume("t")
        answer = done["output" if kind in ("agent", "inside") else "final_output"]
        assert done["after"] is True
        assert paid(effects) <= 1
        if point in ("before:tool", "in:tool"):
            assert paid(effects) == before, "what may have happened is not done again"
            assert "outcome of 'pay' is unknown" in answer
        elif "unknown" not in answer:
            assert paid(effects) == 1
            assert "paid 5" in answer
    finally:
        close = store.close()
        if close is not None:
            await close


@pytest.mark.parametrize(
    ("kind", "point"),
    [*((kind, "in:tool") for kind in KINDS), *((kind, "append:4") for kind in chosen(KINDS, 1))],
)
async def test_a_killed_run_pays_once(tmp_path: Path, kind: str, point: str) -> None:
    await kill_and_resume(str(tmp_path / "t.db"), tmp_path / "effects", kind, point)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_run_that_is_killed_anywhere_pays_once(tmp_path: Path, kind: str, point: str) -> None:
    await kill_and_resume(str(tmp_path / "t.db"), tmp_path / "effects", kind, point)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_run_on_postgres_that_is_killed_anywhere_pays_once(
    postgres: str, tmp_path: Path, kind: str, point: str
) -> None:
    with psycopg.connect(postgres) as db:
        db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")
    await kill_and_resume(postgres, tmp_path / "effects", kind, point)


@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_that_resume_one_thread_at_once_one_pays(tmp_path: Path, kind: str) -> None:
    store, effects = MemoryCheckpointer(), tmp_path / "effects"
    stop = ExecutionOptions(thread_id="t", interrupt_before=["work"])
    with pytest.raises(GraphError, match="stopped before"):
        await build(store, effects, kind).invoke({"input": "pay 5"}, stop)
    graphs = [build(store, effects, kind) for _ in range(4)]
    ends = await asyncio.gather(*[graph.resume("t") for graph in graphs], return_exceptions=True)
    assert paid(effects) == 1
    assert all(isinstance(end, dict | CheckpointError) for end in ends), ends
    assert (await build(store, effects, kind).resume("t"))["after"] is True
    assert paid(effects) == 1


class Both(Model):
    """Pays, then calls the flaky tool, then ends."""

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        told = [message.content for message in request.messages if message.role is Role.TOOL]
        if len(told) == 1:
            self._asked += 1
            return LlmResponse("", (ToolCall(f"flaky-{self._asked}", "flaky", {"text": "x"}),))
        return await super().complete(request)


def flaky_graph(kind: str, store: Any, sent: list[int], *, retry: Any = ()) -> Any:
    asked: list[str] = []

    @tool(effect="once")
    def pay(amount: int) -> str:
        """Pay an amount."""
        sent.append(amount)
        return "paid"

    @tool
    def flaky(text: str) -> str:
        """Fails the first time."""
        asked.append(text)
        if len(asked) == 1:
            raise ConnectionError("down")
        return "fine"

    node: Any = ReActAgentNode(llm=Both("pay"), tools=[pay, flaky])
    if kind == "agent":
        node = Agent(Both("pay"), tools=[pay, flaky], policy=FailFast())
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    return builder.add_node("work", node, retry=retry).set_entry("work").build(store)


@pytest.mark.parametrize("has_store", [False, True], ids=["without-a-store", "with-one"])
@pytest.mark.parametrize("kind", ["node", "agent"])
async def test_a_node_that_is_tried_again_does_not_pay_again(kind: str, has_store: bool) -> None:
    sent: list[int] = []
    retry = RetryPolicy(attempts=2, on=GraphError, backoff=0.0)
    graph = flaky_graph(kind, MemoryCheckpointer() if has_store else None, sent, retry=retry)
    done = await graph.invoke({"input": "pay"})
    assert done["final_output" if kind == "node" else "output"] == "I was told: fine"
    assert sent == [5]


async def test_a_once_tool_that_failed_is_told_of_and_not_run_again() -> None:
    tries: list[int] = []

    @tool(effect="once")
    def pay(amount: int) -> str:
        """Pay an amount."""
        tries.append(amount)
        raise ConnectionError("the bank is closed")

    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("work", ReActAgentNode(llm=Model("pay"), tools=[pay])).set_entry("work")
    graph = builder.build(MemoryCheckpointer())
    with pytest.raises(GraphError, match="the bank is closed"):
        await graph.invoke({"input": "pay"}, THREAD)
    assert "the bank is closed" in (await graph.resume("t"))["final_output"]
    assert tries == [5]


def team_graph(kind: str, store: Any, sent: list[str], *, effect: Any, is_safe: bool) -> Any:
    """A graph whose agent has a tool that runs two agents, each of which asks before it mails."""

    @tool(effect="once", approval=True)
    async def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return f"mailed {to}"

    def clerk(to: str) -> Agent[Any, str]:
        return Agent(FunctionLlm(calling("mail", to=to)), tools=[mail], name="clerk")

    @tool(effect=effect)
    async def both(ctx: ToolContext) -> str:
        """Mail two people."""
        runs = [clerk(to).run("mail", parent=ctx) for to in ("ann", "bob")]
        done: list[Any] = await asyncio.gather(*runs, return_exceptions=is_safe)
        return " and ".join(getattr(one, "output", "nothing") for one in done)

    llm = FunctionLlm(calling("both"))
    if kind == "steps":
        return react_graph(llm=llm, tools=[both], checkpointer=store)
    node: Any = Agent(llm, tools=[both]) if kind == "agent" else ReActAgentNode(llm=llm, tools=[both])
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    return builder.add_node("work", node).set_entry("work").build(store)


def calling(name: str, **args: Any) -> Any:
    """A model that makes a call, and answers with its result."""

    def reply(request: LlmRequest) -> LlmResponse:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return LlmResponse(last.text)
        return LlmResponse("", (ToolCall(name, name, args),))

    return reply


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "effect", "is_safe"),
    sampled([*product(["agent", "node", "steps"], ["once", "idempotent"], [False, True])], 6),
)
async def test_a_call_that_waits_for_runs_inside_it_is_entered_again(
    kind: str, effect: str, is_safe: bool
) -> None:
    """The call has not ended, whatever its effect and however it handles the interruption of its runs."""
    store, sent = MemoryCheckpointer(), list[str]()
    graph = team_graph(kind, store, sent, effect=effect, is_safe=is_safe)
    await stopped(graph.invoke({"input": "mail"}, THREAD))
    (waiting,) = (await graph.get_state("t")).interrupts
    later = team_graph(kind, store, sent, effect=effect, is_safe=is_safe)
    done = await later.resume("t", {call["token"]: Approve() for call in waiting.value["calls"]})
    answer = done["output" if kind == "agent" else "final_output"]
    assert answer == "mailed ann and mailed bob"
    assert sent == ["ann", "bob"]
