"""Middleware around runs: the order, what is counted, what is told, and what is replayed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.kit import ADD, add, boom, call, check_events, echo, failed_with, kinds, say
from tests.draws import draws
from wesichain.agent import Agent, AgentRuntime, Completed, Failed, Interrupted, replay
from wesichain.agent.internal import with_output
from wesichain.core import (
    LlmResponse,
    ModelResponded,
    RunCompleted,
    RunFailed,
    StepFailed,
    StepStarted,
    ToolCompleted,
    ToolDispatched,
    Usage,
    from_json,
    to_json,
)
from wesichain.errors import ConfigError, GuardrailError, LlmTransportError, ToolError
from wesichain.middleware import InputGuard, Middleware, OutputGuard, ToolGuard, guards
from wesichain.policy import Budget, ObserveErrors
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, Finish, ToolResult, tool
from wesichain.trace import CollectingSink, Recorder, find_run, load


class Named(Middleware):
    """Writes down when it is entered and left."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def _around(self, what: str, value: Any, call_next: Any) -> Any:
        self.log.append(f"{self.name}>{what}")
        given = await call_next(value)
        self.log.append(f"{self.name}<{what}")
        return given

    async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
        return await self._around("run", task, call_next)

    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await self._around("model", request, call_next)

    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        return await self._around("tool", call, call_next)


def wrapping(method: str, function: Any) -> Middleware:
    """A middleware of one method, which is this function."""

    async def wrap(self: Any, ctx: Any, value: Any, call_next: Any) -> Any:
        return await function(ctx, value, call_next)

    made: Middleware = type("Wrapping", (Middleware,), {method: wrap})()
    return made


Model, Tool, Run = (partial(wrapping, f"wrap_{what}") for what in ("model", "tool", "run"))


def runtime(replies: Any, *middleware: Middleware, tools: Any = (add, boom, echo), **options: Any) -> Any:
    return AgentRuntime(ScriptedLlm(replies), tools, clock=FakeClock(), middleware=middleware, **options)


def spent_in(events: Any) -> Usage:
    """What the events say was spent."""
    total = Usage()
    for event in events:
        if isinstance(event, ModelResponded):
            total = total + event.response.usage
    return total


async def twice(ctx: Any, request: Any, call_next: Any) -> Any:
    await call_next(request)
    return await call_next(request)


async def test_the_first_is_the_outermost() -> None:
    log: list[str] = []
    outcome = await runtime([say(ADD), "3"], Named("a", log), Named("b", log)).run("q")
    assert isinstance(outcome, Completed)
    inside = ["a>model", "b>model", "b<model", "a<model"]
    tools = ["a>tool", "b>tool", "b<tool", "a<tool"]
    assert log == ["a>run", "b>run", *inside, *tools, *inside, "b<run", "a<run"]
    check_events(outcome.events)


def super_of(name: str) -> Any:
    return lambda self, *given: getattr(Middleware, name)(self, *given)


async def test_one_that_just_calls_on_changes_nothing() -> None:
    bare = await runtime([say(ADD), "3"]).run("q", run_id="r")
    methods = {name: super_of(name) for name in ("wrap_run", "wrap_model", "wrap_tool")}
    calling_on = type("CallingOn", (Middleware,), methods)()
    plain = await runtime([say(ADD), "3"], Middleware(), Named("a", []), calling_on).run("q", run_id="r")
    assert kinds(plain.events) == kinds(bare.events)
    assert (plain.output, plain.spent, plain.messages[:]) == (bare.output, bare.spent, bare.messages[:])


async def test_the_cost_of_every_model_call_is_spent() -> None:
    llm = ScriptedLlm([say(content="first"), say(content="second")], model="m")
    budget = Budget(cost=1.0, prices={"m": (1e6, 1e6)})
    outcome = await AgentRuntime(llm, clock=FakeClock(), budget=budget, middleware=[Model(twice)]).run("q")
    assert isinstance(outcome, Failed), "the first call has spent it all"
    assert outcome.spent.cost == 5.0
    assert len(llm.requests) == 1


@pytest.mark.parametrize(
    ("on_limit", "ending"), [("fail", Failed), ("partial", Completed), ("answer", Completed)]
)
async def test_a_middleware_cannot_ask_beyond_the_budget(on_limit: Any, ending: type) -> None:
    async def for_ever(ctx: Any, request: Any, call_next: Any) -> Any:
        while request.tools:
            await call_next(request)
        return await call_next(request)

    replies = [say(content=f"{n}") for n in range(9)]
    outcome: Any = await runtime(replies, Model(for_ever), budget=Budget(3), on_limit=on_limit).run("q")
    assert type(outcome).__name__ == ending.__name__
    assert outcome.spent.steps == 3
    assert outcome.usage == spent_in(outcome.events)


class Plan:
    """What a middleware does with one request, drawn by hypothesis."""

    def __init__(self, calls: int, answers: str) -> None:
        self.calls, self.answers = calls, answers

    async def __call__(self, ctx: Any, request: Any, call_next: Any) -> Any:
        heard: list[LlmResponse] = [await call_next(request) for _ in range(self.calls)]
        match self.answers:
            case "first" if heard:
                return heard[0]
            case "last" if heard:
                return heard[-1]
            case "changed" if heard:
                return replace(heard[-1], content="changed")
            case "refuses":
                raise GuardrailError("no")
            case "fails":
                raise LlmTransportError("no")
            case _:
                return LlmResponse("own")


PLANS = st.builds(
    Plan, st.integers(0, 3), st.sampled_from(["first", "last", "changed", "own", "refuses", "fails"])
)


@draws(40)
@given(outer=PLANS, inner=PLANS)
def test_what_the_model_was_asked_is_what_is_spent(outer: Plan, inner: Plan) -> None:
    """Exactly once: the tokens of every real call, and no others; the log says the same."""
    asked: list[Usage] = []

    def answer(request: Any) -> LlmResponse:
        asked.append(Usage(len(asked) + 1, 1))
        return LlmResponse("real", usage=asked[-1])

    agent = AgentRuntime(
        FunctionLlm(answer), clock=FakeClock(), budget=Budget(30), middleware=[Model(outer), Model(inner)]
    )
    outcome = asyncio.run(agent.run("q"))
    assert outcome.usage == sum(asked, Usage()) == spent_in(outcome.events)
    started = [event for event in outcome.events if isinstance(event, StepStarted)]
    assert outcome.spent.steps == len(started) == max(1, len(asked))
    check_events(outcome.events)


async def test_an_answer_without_calling_on_is_the_world_s_word() -> None:
    async def cached(ctx: Any, request: Any, call_next: Any) -> Any:
        return LlmResponse("from the cache")

    llm = ScriptedLlm([])
    agent = Agent(llm, middleware=[Model(cached)])
    async with agent.stream("q") as run:
        events = [event async for event in run]
    assert run.result.output == "from the cache"
    assert run.result.usage == Usage()
    assert not llm.requests
    assert "TextDelta" in kinds(events)


async def test_what_goes_in_may_be_changed() -> None:
    async def without_tools(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(replace(request, tools=()))

    async def doubled(ctx: Any, call: Any, call_next: Any) -> Any:
        return await call_next(replace(call, args={"a": 20, "b": 22}))

    llm = ScriptedLlm([say(ADD), "3"])
    outcome = await AgentRuntime(llm, [add], middleware=[Model(without_tools), Tool(doubled)]).run("q")
    assert all(not request.tools for request in llm.requests)
    assert [event.value for event in outcome.events if isinstance(event, ToolCompleted)] == [42]


async def test_changed_arguments_are_checked() -> None:
    async def spoiled(ctx: Any, call: Any, call_next: Any) -> Any:
        return await call_next(replace(call, args={"a": "x"}))

    outcome = await runtime([say(ADD), "3"], Tool(spoiled), policy=ObserveErrors()).run("q")
    assert "StepFailed" in kinds(outcome.events)


@pytest.mark.parametrize(
    ("kind", "misuse", "why"),
    [
        (
            Model,
            lambda request, call_next: call_next("q"),
            "called with a str; wrap_model passes an LlmRequest",
        ),
        (Tool, lambda call, call_next: call_next(replace(call, name="echo")), "may change the arguments"),
        (Tool, lambda call, call_next: call_next("echo"), "called with 'echo' for a call of 'add'"),
        (Tool, lambda call, call_next: asyncio.sleep(0, "3"), "wrap_tool returned a str for 'add'"),
        (Run, lambda task, call_next: asyncio.sleep(0, "3"), "wrap_run returned a str"),
    ],
)
async def test_what_cannot_be_handed_on_or_given_back_is_refused(kind: Any, misuse: Any, why: str) -> None:
    middleware = kind(lambda ctx, value, call_next: misuse(value, call_next))
    with pytest.raises(ConfigError, match=why):
        await runtime([say(ADD), "3"], middleware).run("q")
    inner = Agent(ScriptedLlm([say(ADD), "3"]), tools=[add, echo], name="inner", middleware=[middleware])
    outer = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "x"]), tools=[inner.as_tool()])
    with pytest.raises(ConfigError, match=why):
        await outer.run("q")


async def test_a_model_is_not_called_after_its_middleware_has_answered() -> None:
    late: list[Any] = []

    async def hasty(ctx: Any, request: Any, call_next: Any) -> Any:
        late.append(partial(call_next, request))
        return LlmResponse(str(ctx.spent.steps))

    outcome: Any = await runtime([], Model(hasty)).run("q")
    assert outcome.output == "1", "the step that it spends"
    with pytest.raises(ConfigError, match="after wrap_model had returned"):
        await late[0]()


async def test_what_is_no_reply_is_judged_and_what_came_before_it_is_paid() -> None:
    async def spoiled(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return "no reply"

    outcome = await runtime([say(content="whole")], Model(spoiled)).run("q")
    assert isinstance(outcome, Failed)
    assert "returned str, not an LlmResponse" in str(outcome.error)
    assert outcome.usage == spent_in(outcome.events) == Usage(3, 2)


async def test_what_the_model_gave_that_is_no_reply_is_not_paid() -> None:
    odd: Any = LlmResponse("no usage", usage=None)  # type: ignore[arg-type]
    outcome = await runtime([odd, say(content="whole")], Model(twice)).run("q")
    assert isinstance(outcome, Completed)
    assert outcome.usage == spent_in(outcome.events) == Usage(3, 2)


async def test_a_tool_s_result_may_come_from_elsewhere() -> None:
    async def cached(ctx: Any, call: Any, call_next: Any) -> Any:
        return ToolResult("of-another-call", call.name, 7)

    outcome = await runtime([say(ADD), "7"], Tool(cached)).run("q")
    (done,) = [event for event in outcome.events if isinstance(event, ToolCompleted)]
    assert (done.call_id, done.value) == ("add-id", 7)


async def test_what_must_happen_once_is_not_run_again() -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    async def again(ctx: Any, call: Any, call_next: Any) -> Any:
        first = await call_next(call)
        second = await call_next(call)
        assert not second.ok
        return first

    outcome = await runtime([say(call("pay")), "done"], Tool(again), tools=[pay]).run("q")
    assert isinstance(outcome, Completed)
    assert ran == ["paid"]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(Model, LlmTransportError("once", retryable=True), id="an-error-of-a-provider"),
        pytest.param(Tool, ToolError("once"), id="an-error-of-a-tool"),
    ],
)
async def test_what_it_raises_in_their_names_goes_to_the_policy(kind: Any, fault: Exception) -> None:
    failures = [fault]

    async def flaky(ctx: Any, value: Any, call_next: Any) -> Any:
        if failures:
            raise failures.pop()
        return await call_next(value)

    outcome = await runtime([say(ADD), "3", "3"], kind(flaky), policy=ObserveErrors()).run("q")
    assert isinstance(outcome, Completed)
    (failed,) = [event for event in outcome.events if isinstance(event, StepFailed)]
    assert "once" in failed.message


async def test_what_wrap_run_raises_ends_the_run_as_failed() -> None:
    async def broken(ctx: Any, task: Any, call_next: Any) -> Any:
        await call_next(task)
        raise ValueError("after the answer")

    outcome = await runtime(["3"], Run(broken)).run("q")
    assert isinstance(outcome, Failed)
    assert "after the answer" in str(outcome.error)
    assert isinstance(outcome.events[-1], RunFailed)
    check_events(outcome.events)


async def test_wrap_run_may_change_the_task_and_the_outcome() -> None:
    async def shout(ctx: Any, task: Any, call_next: Any) -> Any:
        outcome = await call_next(task.upper())
        return with_output(outcome, "mine", text="mine")

    llm = ScriptedLlm(["yours"])
    outcome = await AgentRuntime(llm, middleware=[Run(shout)]).run("q")
    assert llm.requests[0].messages[-1].content == "Q"
    assert isinstance(outcome, Completed)
    assert outcome.output == "mine"
    assert [event.output for event in outcome.events if isinstance(event, RunCompleted)] == ["yours"]


async def test_wrap_run_may_run_again() -> None:
    ids: list[str] = []

    async def until_good(ctx: Any, task: Any, call_next: Any) -> Any:
        while True:
            outcome = await call_next(task)
            ids.append(outcome.run_id)
            if outcome.output == "good":
                return outcome

    outcome = await runtime(["bad", "good"], Run(until_good)).run("q")
    assert outcome.output == "good"
    assert len({*ids}) == 2, "another run has another name"
    check_events(outcome.events)
    inner = Agent(ScriptedLlm(["bad", "good"]), name="inner", middleware=[Run(until_good)])
    outer = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "x"]), tools=[inner.as_tool()])
    result = await outer.run("q", run_id="r")
    assert ids[2:] == ["r:inner-id/inner~1", "r:inner-id/inner~1/inner~2"]
    check_events(result.events)


async def test_the_task_of_a_run_that_goes_on_stays_and_it_is_run_once() -> None:
    async def shout(ctx: Any, task: Any, call_next: Any) -> Any:
        return await call_next("Q")

    with pytest.raises(ConfigError, match="was called with another task, 'Q'"):
        await runtime(["3"], Run(shout)).run({"input": "q"})
    with pytest.raises(ConfigError, match="call_next was called twice"):
        await runtime(["3", "4"], Run(twice)).run({"input": "q"})


def refuse() -> None:
    raise GuardrailError("by itself")


class TestGuards:
    @pytest.mark.parametrize(
        ("check", "refused"),
        [
            (lambda task: None, ""),
            (lambda task: True, ""),
            (lambda ctx, task: ctx.run_id == "r", ""),
            (lambda task: False, "the check 'check' said no"),
            (lambda task: "", "the check 'check' said no"),
            (lambda task: "not that", "not that"),
            (lambda task: refuse(), "by itself"),
            (lambda task: 1 / 0, "the check 'check' raised ZeroDivisionError: division by zero"),
            (lambda task: 7, f"the check 'check' gave 7; {guards._RETURNS}"),
            (lambda ctx, task: "not that", "not that"),
        ],
    )  # fmt: skip
    async def test_an_input_guard(self, check: Any, refused: str) -> None:
        async def later(ctx: Any, task: Any) -> Any:
            return check(task) if check.__code__.co_argcount == 1 else check(ctx, task)

        check.__name__ = later.__name__ = "check"
        for one in (check, later):
            llm = ScriptedLlm(["3"])
            outcome = await AgentRuntime(llm, middleware=[InputGuard(one)]).run("q", run_id="r")
            assert isinstance(outcome, Failed if refused else Completed)
            text = refused if refused == "by itself" else f"the task was refused: {refused}"
            assert not isinstance(outcome, Failed) or str(outcome.error) == text
            assert len(llm.requests) == int(not refused), "a refused task costs nothing"
            check_events(outcome.events)

    async def test_a_tool_guard(self) -> None:
        outcome = await runtime(
            [say(ADD, call("echo", {"text": "x"}))],
            ToolGuard(lambda call: call.name != "echo"),
            policy=ObserveErrors(),
        ).run("q")
        failed_with(outcome, GuardrailError)
        assert [event.tool_name for event in outcome.events if isinstance(event, ToolCompleted)] == ["add"]
        check_events(outcome.events)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (None, r"^InputGuard\(None\): pass a function of \(value\) or \(ctx, value\)$"),
            (lambda: None, r"^InputGuard: a check takes \(value\) or \(ctx, value\), this one takes 0$"),
            (lambda a, b, c: None, "this one takes 3$"),
        ],
    )
    def test_a_wrong_check_is_refused_when_it_is_given(self, wrong: Any, why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            InputGuard(wrong)
        with pytest.raises(ConfigError, match="use 'hold' or 'pass'"):
            OutputGuard(str, stream=wrong)

    def test_a_class_is_no_middleware(self) -> None:
        with pytest.raises(ConfigError, match="a list of Middleware objects"):
            runtime([], Named)  # type: ignore[arg-type]  # that is the point


async def test_nested_agents_have_their_own_middleware() -> None:
    log: list[str] = []
    scopes: list[Any] = []

    async def look(ctx: Any, request: Any, call_next: Any) -> Any:
        scopes.append((ctx.agent, ctx.scope, ctx.deps))
        return await twice(ctx, request, call_next)

    inner = Agent(
        ScriptedLlm([say(content="draft"), say(content="inner")]), name="inner", middleware=[Model(look)]
    )
    outer = Agent(
        ScriptedLlm([say(call("inner", {"task": "t"})), "outer"]),
        name="outer",
        tools=[inner.as_tool()],
        middleware=[Named("o", log)],
    )
    result = await outer.run("q", deps="world")
    assert result.output == "outer"
    assert scopes == [("inner", ("outer",), "world")]
    assert log.count("o>tool") == 1
    assert result.usage == Usage(9, 6)
    check_events(result.events)


async def test_a_guard_of_a_nested_agent_is_a_failure_of_its_tool() -> None:
    inner = Agent(ScriptedLlm([]), name="inner", middleware=[InputGuard(lambda task: "no")])
    outer = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "told"]), tools=[inner.as_tool()])
    result = await outer.run("q")
    assert result.output == "told"


async def test_an_outcome_that_a_nested_middleware_changed_is_what_the_caller_s_loop_was_told() -> None:
    async def other(ctx: Any, task: Any, call_next: Any) -> Any:
        return with_output(await call_next(task), "changed", text="changed")

    inner = Agent(ScriptedLlm(["inner"]), name="inner", middleware=[Run(other)])
    outer = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "outer"]), tools=[inner.as_tool()])
    result = await outer.run("q")
    assert [event.value for event in result.events if isinstance(event, ToolCompleted)] == ["changed"]


async def test_eight_at_a_time() -> None:
    seen: dict[str, set[str]] = {}

    async def slow(ctx: Any, value: Any, call_next: Any) -> Any:
        await asyncio.sleep(0.001)
        seen.setdefault(ctx.run_id, set()).add(ctx.deps)
        return await call_next(value)

    agent = Agent(
        FunctionLlm(
            lambda request: (
                say(*(call("echo", {"text": str(n)}, id=f"c{n}") for n in range(8)))
                if len(request.messages) < 3
                else "done"
            )
        ),
        tools=[echo],
        middleware=[Model(slow), Tool(slow), Model(twice)],
        budget=Budget(20),
    )
    results = await asyncio.gather(*(agent.run(f"q{n}", deps=f"d{n}", run_id=f"r{n}") for n in range(8)))
    assert seen == {f"r{n}": {f"d{n}"} for n in range(8)}
    for result in results:
        assert result.usage == spent_in(result.events)
        assert sum(isinstance(event, ToolDispatched) for event in result.events) == 8
        check_events(result.events)


@pytest.mark.parametrize("kind", [Run, Model, Tool])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_cancel_inside_a_middleware(kind: Any, after: bool) -> None:
    """By the token: the run is interrupted, what had arrived is kept, and it goes on to the same end."""
    cancelled: list[bool] = []

    async def cancel(ctx: Any, value: Any, call_next: Any) -> Any:
        first, done = not cancelled, None
        if after:
            done = await call_next(value)
        if first:
            cancelled.append(True)
            ctx.cancellation.cancel("enough")
        return done if after else await call_next(value)

    llm = ScriptedLlm([say(ADD), "3", "3"])
    agent = AgentRuntime(llm, [add], clock=FakeClock(), middleware=[kind(cancel)])
    outcome = await agent.run("q", cancellation=CancellationToken())
    assert isinstance(outcome, Interrupted)
    check_events(outcome.events)
    again = await agent.resume(from_json(Interrupted, to_json(outcome)))
    assert isinstance(again, Completed)
    assert again.output == "3"
    assert len(llm.requests) == again.spent.steps == 2, "nothing is asked twice"


@pytest.mark.parametrize("kind", [Run, Model, Tool])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_task_that_is_cancelled_inside_a_middleware(kind: Any, after: bool) -> None:
    heard: list[Any] = []
    begun = asyncio.Event()

    async def hang(ctx: Any, value: Any, call_next: Any) -> Any:
        if after:
            await call_next(value)
        begun.set()
        await asyncio.sleep(60)

    class Sink:
        def emit(self, event: Any) -> None:
            heard.append(event)

    agent = runtime([say(ADD), "3"], kind(hang), events=Sink())
    task = asyncio.ensure_future(agent.run("q"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kinds(heard)[-1] == "RunInterrupted"
    check_events(heard)


async def test_a_replay_runs_no_middleware(tmp_path: Path) -> None:
    """Also by a program that has none: a recording holds all that the run was told."""
    log: list[str] = []
    options: dict[str, Any] = {"tools": [add], "name": "a"}
    agent = Agent(
        ScriptedLlm([say(ADD), say(ADD), say(content="3"), say(content="three")], model="m"),
        middleware=[Named("a", log), Model(twice)],
        events=Recorder(tmp_path),
        **options,
    )
    outcome = await agent.outcome("q")
    seen = len(log)
    recording = load(find_run(tmp_path, outcome.run_id))
    for program in (agent, Agent(ScriptedLlm([], model="m"), **options)):
        again = await replay(recording, program)
        assert isinstance(again, Completed)
        assert (again.output, again.usage, again.spent.steps) == ("three", outcome.usage, 4)
    assert len(log) == seen


class TestAStepAtATime:
    """A run inside `wrap_run`, taken in steps: the same as one that is carried."""

    SCRIPT = (say(ADD), say(call("echo", {"text": "x"})), "done")

    class Changes(Middleware):
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            return await call_next(f"{task}, please")

    class Answers(Middleware):
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            return await AgentRuntime(ScriptedLlm(["cached"]), clock=FakeClock()).run(task)

    class Twice(Middleware):
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            await call_next(task)
            return await call_next(task)

    class Raises(Middleware):
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            await call_next(task)
            raise ValueError("broken")

    KINDS = (
        pytest.param([Changes()], id="another-task"),
        pytest.param([Answers()], id="answers-itself"),
        pytest.param([Twice()], id="twice"),
        pytest.param([Raises()], id="raises"),
        pytest.param([InputGuard(lambda task: "no")], id="refuses-the-task"),
        pytest.param([OutputGuard(lambda answer: "no")], id="refuses-the-answer"),
        pytest.param([Changes(), OutputGuard(lambda answer: True)], id="two-of-them"),
    )

    def agent(self, middleware: list[Any], *, heard: Any = None) -> Agent[Any, str]:
        ids = iter(range(9))
        script: list[Any] = [*self.SCRIPT, *self.SCRIPT]
        return Agent(
            ScriptedLlm(script),
            tools=[add, echo],
            middleware=middleware,
            clock=FakeClock(),
            new_id=lambda: f"r{next(ids)}",
            events=heard,
        )

    @pytest.mark.parametrize("middleware", KINDS)
    def test_it_comes_to_the_same(self, middleware: list[Any]) -> None:
        async def carried(heard: CollectingSink) -> Any:
            return await self.agent(middleware, heard=heard).outcome("q")

        async def stepped(heard: CollectingSink) -> Any:
            async with self.agent(middleware, heard=heard).iterate("q") as run:
                before = run.phase
                async for phase in run:
                    assert phase is run.phase
                    assert phase is not before
                    before = phase
            assert run.outcome is before
            return run.outcome

        ends = []
        for way in (carried, stepped):
            heard = CollectingSink()
            outcome = asyncio.run(way(heard))
            error = str(getattr(outcome, "error", ""))
            told = [(type(event).__name__, event.step_id, event.seq) for event in heard.events]
            ends.append((type(outcome), [*outcome.messages], outcome.spent, error, told))
        assert ends[0] == ends[1]

    def test_one_step_is_one_step(self) -> None:
        async def main() -> list[str]:
            agent = self.agent([self.Changes()])
            llm: Any = agent.runtime.llm
            async with agent.iterate("q") as run:
                seen = []
                while run.outcome is None:
                    phase = await run.step()
                    seen.append(f"{type(phase).__name__} {len(llm.requests)}")
                await run.step()  # after the end nothing happens
            assert llm.requests[0].messages[-1].text == "q, please"
            return seen

        assert asyncio.run(main()) == [
            *("Thinking 0", "Acting 1", "Observing 1", "Thinking 1", "Acting 2", "Observing 2", "Thinking 2"),
            "Completed 3",
        ]

    @pytest.mark.parametrize("steps", range(8))
    async def test_left_early_it_is_interrupted_the_middleware_sees_it_and_it_can_go_on(
        self, steps: int
    ) -> None:
        seen: list[str] = []

        class Sees(Middleware):
            async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
                outcome = await call_next(task)
                seen.append(type(outcome).__name__)
                return outcome

        agent = self.agent([Sees()])
        async with agent.iterate("q") as run:
            for _ in range(steps):
                await run.step()
        assert isinstance(run.outcome, Interrupted)
        assert seen == (["Interrupted"] if steps else [])  # of a run that had not begun it hears nothing
        check_events(run.outcome.events)
        assert (await agent.resume(run.outcome)).output == "done"
        assert len(asyncio.all_tasks()) == 1

    async def test_one_that_begins_anew_when_it_is_left_is_stopped_too(self) -> None:
        async with self.agent([self.Twice()]).iterate("q") as run:
            await run.step()
        assert isinstance(run.outcome, Interrupted)
        assert len(asyncio.all_tasks()) == 1

    async def test_a_cancelled_step_ends_the_run_and_leaves_nothing_behind(self) -> None:
        @tool
        async def sleep() -> str:
            """Sleep for long."""
            await asyncio.sleep(600)
            return "never"

        llm = ScriptedLlm([say(call("sleep"))])
        agent = Agent(llm, tools=[sleep], middleware=[self.Changes()])
        run = agent.iterate("q")

        async def take() -> None:
            async with run:
                async for _ in run:
                    pass

        task = asyncio.create_task(take())
        while not llm.requests:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(run.outcome, Interrupted)
        check_events(run.outcome.events)
        assert len(asyncio.all_tasks()) == 1


async def test_a_reply_that_nobody_waited_for_has_its_price_all_the_same() -> None:
    gate, asked = asyncio.Event(), list[Any]()

    async def answer(request: Any) -> LlmResponse:
        if request.messages[-1].text == "q":
            await gate.wait()
            return say(content="late")
        return say(content="done")

    async def hasty(ctx: Any, request: Any, call_next: Any) -> Any:
        if asked:
            return await call_next(request)
        asked.append(asyncio.ensure_future(call_next(request)))
        await asyncio.sleep(0)
        return LlmResponse(tool_calls=(call("open"),))

    @tool(name="open")
    async def open_gate() -> str:
        """Let the reply come."""
        gate.set()
        await asked[0]
        return "opened"

    agent = AgentRuntime(FunctionLlm(answer), [open_gate], middleware=[Model(hasty)])
    outcome = await agent.run("q")
    assert isinstance(outcome, Completed)
    assert outcome.usage == spent_in(outcome.events) == Usage(6, 4), "the late reply and the last one"


async def test_a_run_that_a_tool_has_ended_has_its_end_when_the_middleware_is_cut_off() -> None:
    reached, sink = asyncio.Event(), CollectingSink()

    async def linger(ctx: Any, task: Any, call_next: Any) -> Any:
        done = await call_next(task)
        reached.set()
        await asyncio.sleep(60)
        return done

    @tool
    async def stop() -> Any:
        """End the run."""
        return Finish("enough")

    agent = AgentRuntime(ScriptedLlm([say(call("stop"))]), [stop], middleware=[Run(linger)], events=sink)
    task = asyncio.create_task(agent.run("q"))
    await reached.wait()
    assert kinds(sink.events)[-1] == "ToolCompleted", "its end is emitted after the middleware"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    check_events(sink.events)
    assert isinstance(sink.events[-1], RunCompleted)


async def test_a_moment_of_a_run_with_middleware_can_be_resumed() -> None:
    log: list[str] = []
    agent = runtime([say(ADD), "3", "3"], Named("a", log))
    run = agent.open("q", run_id="r")
    await run.step()
    await run.step()
    now = run.snapshot()
    assert (now.reason, now.step) == ("between two steps", 1)
    assert (await agent.resume(from_json(Interrupted, to_json(now)))).output == "3"
    await run.leave("enough")
    assert run.outcome.reason == "enough"
