"""Middleware around the part of a run that was handed to its agent."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from typing_extensions import override

from tests.agent.kit import call, check_events, say
from wesichain import Agent, RunContext
from wesichain.agent import Approve, Completed, Failed, replay
from wesichain.agent.phases import with_output
from wesichain.core import to_json
from wesichain.durable.journal.durable_effects import DurableEffects
from wesichain.durable.journal.step_journal import StepJournal
from wesichain.errors import ConfigError, GuardrailError, RunInterruptedError
from wesichain.middleware import CallRun, InputGuard, Middleware, OutputGuard
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import CollectingSink, Recording


class Around(Middleware[Any]):
    """Writes down where it stands."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    @override
    async def wrap_run(self, ctx: RunContext[Any], task: Any, call_next: CallRun) -> Any:
        self.log.append(f"{self.name} in as {ctx.agent} at {ctx.step_id}")
        outcome = await call_next(task)
        self.log.append(f"{self.name} out: {type(outcome).__name__}{getattr(outcome, 'reason', '')!r}")
        return outcome


@tool(approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


def to(name: str) -> Any:
    return call(f"transfer_to_{name}", id=f"to-{name}")


def desk(*replies: Any, first: Any = (), second: Any = (), **options: Any) -> Agent[Any]:
    cashier = Agent(ScriptedLlm(replies), name="cashier", tools=[pay], middleware=[*second])
    return Agent(
        ScriptedLlm([say(to("cashier"))]), name="desk", handoffs=[cashier], middleware=[*first], **options
    )


def recorded(events: Any) -> Recording:
    return Recording(events[0].run_id, tuple(events))


async def test_the_middleware_of_the_opener_stands_around_all_and_that_of_another_around_its_part() -> None:
    log: list[str] = []
    first, second = [Around("a", log), Around("b", log)], [Around("c", log), Around("d", log)]
    result = await desk("done", first=first, second=second).run("q")
    assert (result.output, result.agent) == ("done", "cashier")
    assert log == [
        "a in as desk at 0",
        "b in as desk at 0",
        "c in as cashier at 1",
        "d in as cashier at 1",
        "d out: Completed''",
        "c out: Completed''",
        "b out: Completed''",
        "a out: Completed''",
    ]
    check_events(result.events)


async def test_a_part_ends_where_the_run_is_handed_on() -> None:
    log: list[str] = []
    third = Agent(ScriptedLlm(["done"]), name="third", middleware=[Around("c", log)])
    second = Agent(
        ScriptedLlm([say(to("third"))]), name="second", handoffs=[third], middleware=[Around("b", log)]
    )
    first = Agent(ScriptedLlm([say(to("second"))]), name="first", handoffs=[second])
    result = await first.run("q")
    assert (result.output, result.agent) == ("done", "third")
    assert log == [
        "b in as second at 1",
        "b out: Interrupted\"handed over to 'third'\"",
        "c in as third at 2",
        "c out: Completed''",
    ]
    check_events(result.events)


REFUSED: list[Any] = [
    pytest.param(InputGuard(lambda task: "no payments today"), "the task", id="when-it-takes-over"),
    pytest.param(OutputGuard(lambda answer: answer != "secret"), "the answer", id="when-it-answers"),
]


@pytest.mark.parametrize(("guard", "what"), REFUSED)
async def test_a_guard_of_the_other_agent_ends_the_run_and_so_does_the_replay(guard: Any, what: str) -> None:
    outcome = await desk("secret", second=[guard]).outcome("q")
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, GuardrailError)
    assert str(outcome.error).startswith(f"{what} was refused")
    assert outcome.info.agent == "cashier"
    check_events(outcome.events)
    again = await replay(recorded(outcome.events), desk(second=[guard]))
    assert isinstance(again, Failed)
    assert to_json([*again.events]) == to_json([*outcome.events])


async def test_a_guard_judges_its_own_agents_answers_alone() -> None:
    """The clerk may say what the cashier may not."""
    guard = OutputGuard(lambda answer: answer != "secret")
    clerk = Agent(ScriptedLlm(["secret"]), name="clerk")
    cashier = Agent(ScriptedLlm([say(to("clerk"))]), name="cashier", handoffs=[clerk], middleware=[guard])
    result = await Agent(ScriptedLlm([say(to("cashier"))]), name="desk", handoffs=[cashier]).run("q")
    assert (result.output, result.agent) == ("secret", "clerk")


class Odd(Middleware[Any]):
    def __init__(self, act: Any) -> None:
        self.act = act

    @override
    async def wrap_run(self, ctx: RunContext[Any], task: Any, call_next: CallRun) -> Any:
        return await self.act(task, call_next)


async def twice(task: Any, call_next: CallRun) -> Any:
    await call_next(task)
    return await call_next(task)


async def another_task(task: Any, call_next: CallRun) -> Any:
    return await call_next(f"not {task}")


async def nothing(task: Any, call_next: CallRun) -> Any:
    return None


async def no_outcome(task: Any, call_next: CallRun) -> Any:
    return (await call_next(task)).output


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (twice, "was called twice in wrap_run of the agent 'cashier'"),
        (another_task, "was called with another task, 'not q'"),
        (nothing, "wrap_run of the agent 'cashier' did not call call_next"),
        (no_outcome, "wrap_run of the agent 'cashier' returned a str"),
    ],
)
async def test_a_part_is_carried_once_with_its_own_task(act: Any, why: str) -> None:
    sink = CollectingSink()
    with pytest.raises(ConfigError, match=why):
        await desk("done", second=[Odd(act)], events=sink).run("q")
    check_events(sink.events)


async def test_another_outcome_is_for_the_caller_alone() -> None:
    async def change(task: Any, call_next: CallRun) -> Any:
        return with_output(await call_next(task), "other")

    sink = CollectingSink()
    result = await desk("done", second=[Odd(change)], events=sink).run("q")
    assert result.output == "other"
    last: Any = sink.events[-1]
    assert last.output == "done", "what the log tells is the run's own"


@pytest.mark.parametrize("at", ["before", "after"])
async def test_a_cancel_inside_it_interrupts_the_run_and_it_can_go_on(at: str) -> None:
    reached = asyncio.Event()

    async def hang(task: Any, call_next: CallRun) -> Any:
        outcome = await call_next(task) if at == "after" else None
        reached.set()
        await asyncio.sleep(30)
        return outcome

    sink = CollectingSink()
    log: list[str] = []
    running = asyncio.create_task(desk("done", second=[Odd(hang)], events=sink).run("q", run_id="r"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    check_events(sink.events)
    assert sink.events[-1].kind == "run_interrupted"
    steps = desk("done", second=[Around("b", log)]).iterate("q")
    async with steps as run:
        async for _ in run:
            pass
    assert isinstance(run.outcome, Completed)
    assert log == ["b in as cashier at 1", "b out: Completed''"]


async def test_an_approval_in_a_part_below_a_tool_waits_at_the_top() -> None:
    log: list[str] = []
    below = desk(say(call("pay", {"euros": 3})), "paid", second=[Around("b", log)])
    agent = Agent(ScriptedLlm([say(call("ask", {"task": "t"})), "all"]), tools=[below.as_tool(name="ask")])
    with pytest.raises(RunInterruptedError) as caught:
        await agent.run("q")
    outcome: Any = caught.value.outcome
    result = await agent.resume(outcome, {outcome.pending[0].token: Approve()})
    assert result.output == "all"
    assert log == [
        "b in as cashier at 1",
        "b out: Interrupted'approval'",
        "b in as cashier at 2",
        "b out: Completed''",
    ]


@pytest.mark.parametrize("kept", range(5))
async def test_a_durable_run_that_was_killed_comes_to_the_same_end(kept: int) -> None:
    texts: dict[str, str] = {}

    async def step(name: str, act: Any, *_: Any) -> str:
        texts[name] = await act()
        return texts[name]

    async def run(log: list[str], recorded: dict[str, str]) -> Any:
        asked = {name for name in recorded if name.startswith("ask ")}
        journal = StepJournal(recorded, step, clock=FakeClock(), at=0.0)
        cashier = Agent(
            ScriptedLlm([] if "ask 2" in asked else ["done"]), name="cashier", middleware=[Around("b", log)]
        )
        first = Agent(
            ScriptedLlm([] if "ask 1" in asked else [say(to("cashier"))]),
            name="desk",
            handoffs=[cashier],
            clock=FakeClock(),
        )
        effects = partial(DurableEffects, journal)
        return await first.runtime.run("q", run_id="r", effects=effects, clock=journal)

    logs: tuple[list[str], list[str]] = ([], [])
    whole: Any = await run(logs[0], {})
    assert whole.kind == "completed"
    assert [*texts] == ["ask 1", "call 1 to-cashier 1", "instruct 1", "ask 2"]
    again = await run(logs[1], dict([*texts.items()][:kept]))
    assert (again.output, again.info.agent, again.spent) == (whole.output, "cashier", whole.spent)
    assert [type(event) for event in again.events] == [type(event) for event in whole.events]
    assert logs[0] == logs[1] == ["b in as cashier at 1", "b out: Completed''"]
