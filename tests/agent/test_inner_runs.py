"""Tools that run several agents: each run has an identity, and is given back or resumed by it."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count, product
from typing import Any

import pytest

from tests.agent.kit import LogSink, call, replayed, say
from tests.draws import sampled
from wesichain.agent import Agent, Approve, Completed, Failed, Interrupted, Outcome, replay
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    ReActState,
    Role,
    StepFailed,
    ToolCompleted,
    from_json,
    to_json,
)
from wesichain.errors import BudgetExceededError, RunFailedError
from wesichain.policy import Budget, FailFast
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, Finish, ToolContext, tool
from wesichain.trace import CollectingSink, Recording


class Mail:
    """What was sent, and to whom."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def writer(self, *, approval: bool = False) -> Agent[Any, str]:
        """An agent that sends one mail to whoever its task names."""

        @tool(effect="once", approval=approval)
        async def send(who: str) -> str:
            """Send a mail."""
            await asyncio.sleep(0)
            self.sent[who] += 1
            return f"sent to {who}"

        def reply(request: LlmRequest) -> LlmResponse:
            who = next(message.text for message in request.messages if message.role is Role.USER)
            done = [message.text for message in request.messages if message.role is Role.TOOL]
            return LlmResponse(f"{who}: {done[0]}") if done else say(call("send", {"who": who}))

        return Agent(FunctionLlm(reply), tools=[send], name="writer")


def office(tools: list[Any], *, name: str = "letters") -> Agent[Any, str]:
    """An agent that calls one tool, and is done: the same whenever, and wherever, it is made."""

    def reply(request: LlmRequest) -> LlmResponse:
        has_result = any(message.role is Role.TOOL for message in request.messages)
        return LlmResponse("done") if has_result else say(call(name, {"task": "t"} if name == "desk" else {}))

    return Agent(FunctionLlm(reply), tools=tools, budget=Budget(steps=40))


def letters(mail: Mail, shape: str, *, effect: Any = "idempotent", approval: bool = False) -> Any:
    """A tool that writes to three people, in one of the ways in which people write such tools."""
    writer = mail.writer(approval=approval)

    @tool(name="letters", effect=effect)
    async def in_order(ctx: ToolContext) -> list[str]:
        """Write letters."""
        return [(await writer.run(who, parent=ctx)).output for who in ("ann", "bob", "cleo")]

    @tool(name="letters", effect=effect)
    async def gathered(ctx: ToolContext) -> list[str]:
        """Write letters."""
        runs = [writer.run(who, parent=ctx) for who in ("ann", "bob", "cleo")]
        return [result.output for result in await asyncio.gather(*runs)]

    @tool(name="letters", effect=effect)
    async def swallowed(ctx: ToolContext) -> list[str]:
        """Write letters."""
        runs = [writer.run(who, parent=ctx) for who in ("ann", "bob", "cleo")]
        results = await asyncio.gather(*runs, return_exceptions=True)
        return ["lost" if isinstance(one, BaseException) else one.output for one in results]

    @tool(name="letters", effect=effect)
    async def grouped(ctx: ToolContext) -> list[str]:
        """Write letters."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(writer.run(who, parent=ctx)) for who in ("ann", "bob", "cleo")]
        return [task.result().output for task in tasks]

    return {"in_order": in_order, "gathered": gathered, "swallowed": swallowed, "grouped": grouped}[shape]


EXPECTED = '["ann: sent to ann","bob: sent to bob","cleo: sent to cleo"]'
SHAPES = ("in_order", "gathered", "swallowed", "grouped")


class StopAt:
    def __init__(self, number: int, token: CancellationToken) -> None:
        self._left, self._token = number, token

    def emit(self, event: object) -> None:
        self._left -= 1
        if self._left == 0:
            self._token.cancel("stopped by a test")


def reread(outcome: Outcome[str]) -> Interrupted[str]:
    assert isinstance(outcome, Interrupted), outcome
    kind: Any = Interrupted
    read: Interrupted[str] = from_json(kind, to_json(outcome))
    return read


def shown(outcome: Outcome[Any]) -> str:
    """The result of the one call, as the model was shown it."""
    return next(message.text for message in outcome.messages if message.role is Role.TOOL)


@pytest.mark.sampled
@pytest.mark.parametrize("effect", ["idempotent", "once"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_stopped_at_any_event_every_answer_keeps_its_place(shape: str, effect: str) -> None:
    whole = await office([letters(Mail(), shape)]).outcome("q")
    assert shown(whole).replace(" ", "") == EXPECTED.replace(" ", "")
    for number in sampled(range(1, len(whole.events)), 2):
        mail, token = Mail(), CancellationToken()
        agent = office([letters(mail, shape, effect=effect)])
        outcome = await agent.outcome("q", cancellation=token, events=StopAt(number, token))
        while isinstance(outcome, Interrupted):
            outcome = await office([letters(mail, shape, effect=effect)]).runtime.resume(reread(outcome))
        assert isinstance(outcome, Completed), (number, outcome)
        assert max(mail.sent.values(), default=1) == 1, (number, mail.sent)
        if "OUTCOME UNKNOWN" not in shown(outcome) and "UNKNOWN" not in str(outcome.messages):
            assert shown(outcome).replace(" ", "") == EXPECTED.replace(" ", ""), number


@pytest.mark.parametrize("effect", ["idempotent", "once"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_question_goes_up_and_what_was_approved_is_done_once(shape: str, effect: str) -> None:
    mail = Mail()
    tools = [letters(mail, shape, effect=effect, approval=True)]
    outcome: Any = await office(tools).outcome("q")
    asked = 0
    while isinstance(outcome, Interrupted):
        waiting = reread(outcome)
        assert waiting.pending, "it waits for a person"
        asked += len(waiting.pending)
        decisions = {item.token: Approve() for item in waiting.pending}
        outcome = await office(tools).runtime.resume(waiting, decisions)
    assert isinstance(outcome, Completed), outcome
    assert shown(outcome).replace(" ", "") == EXPECTED.replace(" ", "")
    assert mail.sent == {"ann": 1, "bob": 1, "cleo": 1}
    assert asked == 3


@pytest.mark.parametrize("task_of", [str, lambda who: [who], ReActState])
async def test_a_run_is_known_by_its_task_in_whatever_order_the_tool_starts_them(task_of: Any) -> None:
    mail = Mail()
    writer = mail.writer(approval=True)
    names = ["ann", "bob", "cleo"]

    @tool(name="letters")
    async def letters(ctx: ToolContext) -> list[str]:
        """Write letters, in another order each time."""
        names.reverse()
        order = tuple(names)
        results = await asyncio.gather(*(writer.run(task_of(who), parent=ctx) for who in order))
        outputs = {who: result.output for who, result in zip(order, results, strict=True)}
        return [outputs[who] for who in sorted(outputs)]

    agent = office([letters])
    waiting = reread(await agent.outcome("q"))
    assert len(waiting.pending) == 3
    outcome = await agent.runtime.resume(waiting, {item.token: Approve() for item in waiting.pending})
    assert isinstance(outcome, Completed), outcome
    assert shown(outcome).replace(" ", "") == EXPECTED.replace(" ", "")
    assert mail.sent == {"ann": 1, "bob": 1, "cleo": 1}


async def test_a_run_is_known_by_its_agent_where_two_have_one_task() -> None:
    agents = {"writer": Mail().writer(approval=True), "reader": Agent(ScriptedLlm(["read"]), name="reader")}
    order = ["reader", "writer"]

    @tool(name="letters")
    async def letters(ctx: ToolContext) -> str:
        """Let one write and another read, in another order each time."""
        order.reverse()
        names = tuple(order)
        results = await asyncio.gather(*(agents[name].run("ann", parent=ctx) for name in names))
        outputs = {name: result.output for name, result in zip(names, results, strict=True)}
        return f"{outputs['writer']}, {outputs['reader']}"

    agent = office([letters])
    waiting = reread(await agent.outcome("q"))
    outcome = await agent.runtime.resume(waiting, {item.token: Approve() for item in waiting.pending})
    assert isinstance(outcome, Completed), outcome
    assert shown(outcome) == "ann: sent to ann, read"


async def test_runs_of_one_task_are_known_by_their_keys() -> None:
    """Each branch is given its own runs back, though another branch comes to its second run first."""
    numbers = count(1)
    counter = Agent(FunctionLlm(lambda _: LlmResponse(str(next(numbers)))), name="counter")
    writer = Mail().writer(approval=True)
    given: dict[tuple[str, int], list[str]] = {}

    @tool(name="letters")
    async def letters(ctx: ToolContext) -> str:
        """Number the letters, and write one."""
        is_first = not given

        async def branch(name: str, turns: int) -> None:
            for place in (1, 2):
                number = await counter.run("count", parent=ctx, key=f"{name}{place}")
                given.setdefault((name, place), []).append(number.output)
                for _ in range(turns):
                    await asyncio.sleep(0)

        await asyncio.gather(branch("a", 0 if is_first else 99), branch("b", 99 if is_first else 0))
        return (await writer.run("ann", parent=ctx)).output

    agent = office([letters])
    waiting = reread(await agent.outcome("q"))
    outcome = await agent.runtime.resume(waiting, {item.token: Approve() for item in waiting.pending})
    assert isinstance(outcome, Completed), outcome
    assert given == {("a", 1): ["1"] * 2, ("b", 1): ["2"] * 2, ("a", 2): ["3"] * 2, ("b", 2): ["4"] * 2}


def endless() -> Agent[Any, str]:
    """An agent that never ends by itself."""

    @tool
    async def note(n: int) -> int:
        """Note a number."""
        return n

    numbers = count()

    def reply(request: LlmRequest) -> LlmResponse:
        return say(call("note", {"n": next(numbers)}, id=f"n{len(request.messages)}"))

    return Agent(FunctionLlm(reply), tools=[note], name="reader")


async def in_order(runs: list[Any]) -> None:
    for run in runs:
        await run


async def gathered(runs: list[Any]) -> None:
    await asyncio.gather(*runs)


async def gathered_with_errors(runs: list[Any]) -> None:
    for one in await asyncio.gather(*runs, return_exceptions=True):
        if isinstance(one, BaseException):
            raise one


async def grouped(runs: list[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(run)


async def wrapped(runs: list[Any]) -> None:
    try:
        await asyncio.gather(*runs)
    except RunFailedError as error:
        raise RuntimeError("could not be read") from error


async def hidden(runs: list[Any]) -> None:
    try:
        await asyncio.gather(*runs)
    except RunFailedError:
        raise RuntimeError("could not be read") from None


@pytest.mark.sampled
@pytest.mark.parametrize("on_limit", ["fail", "answer"])
@pytest.mark.parametrize("ways", [in_order, gathered, gathered_with_errors, grouped, wrapped, hidden])
async def test_a_limit_above_that_is_met_below_is_met_again_in_a_replay(ways: Any, on_limit: Any) -> None:
    """However many runs a tool makes, in whatever way, and whatever it raises then."""
    for runs, steps in sampled([*product((1, 2, 3), (4, 5, 6, 9))], 2):

        def program(runs: int = runs, steps: int = steps) -> Agent[Any, str]:
            @tool
            async def letters(ctx: ToolContext) -> str:
                """Have them read."""
                readers = [endless().run(str(n), parent=ctx) for n in range(runs)]
                try:
                    await ways(readers)
                finally:
                    for reader in readers:
                        reader.close()
                return "read"

            made = office([letters])
            budget = Budget(steps=steps)
            return Agent(made.llm, tools=[letters], budget=budget, on_limit=on_limit, policy=FailFast())

        outcome = await program().outcome("go")
        if on_limit == "answer":  # the owner of the limit decides, and no policy
            assert isinstance(outcome, Completed), outcome
        else:
            assert isinstance(outcome, Failed), outcome
            assert isinstance(outcome.error, BudgetExceededError), outcome
        replayed = await replay(outcome, program())
        assert [*replayed.events] == [*outcome.events]


@pytest.mark.parametrize("replies", [["three"], []], ids=["completed", "failed"])
async def test_an_agent_as_a_tool_takes_the_recorded_time_in_a_replay(replies: list[str]) -> None:
    def program() -> Agent[Any, str]:
        inner = Agent(ScriptedLlm(replies), name="inner")
        model = ScriptedLlm([say(call("inner", {"task": "t"})), "x"])
        return Agent(model, tools=[inner.as_tool()])

    outcome = await program().outcome("go")
    ends = [event for event in outcome.events if isinstance(event, ToolCompleted | StepFailed)]
    assert ends[-1].duration_ms > 0
    again = await replayed(outcome, program())
    assert list(again.events) == list(outcome.events)


async def test_a_limit_of_the_highest_of_three_runs_is_that_run_s_in_a_replay() -> None:
    def program() -> Agent[Any, str]:
        middle = Agent(
            FunctionLlm(lambda _: say(call("reader", {"task": "t"}), content="Not yet.")),
            tools=[endless().as_tool()],
            name="middle",
            on_limit="partial",
        )
        model = ScriptedLlm([say(call("middle", {"task": "t"}))])
        return Agent(model, tools=[middle.as_tool()], budget=Budget(steps=5))

    outcome = await program().outcome("go")
    again = await replayed(outcome, program())
    assert isinstance(outcome, Failed)
    assert list(again.events) == list(outcome.events)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("again", [lambda outcome: outcome, lambda outcome: reread(outcome)])
async def test_a_limit_above_is_still_one_after_a_sibling_was_approved(depth: int, again: Any) -> None:
    """One run meets the limit, the other waits: resumed, the limit is that of the run that set it."""

    @tool(effect="once", approval=True)
    async def pay() -> Finish[str]:
        """Pay."""
        return Finish("paid")

    def program() -> Agent[Any, str]:
        payer = Agent(ScriptedLlm([say(call("pay"))]), tools=[pay], name="payer")

        @tool
        async def letters(ctx: ToolContext) -> str:
            """Have one read, and the other pay."""
            runs = [payer.run("pay", parent=ctx), endless().run("read", parent=ctx)]
            ended = await asyncio.gather(*runs, return_exceptions=True)
            raise next(one for one in ended if isinstance(one, BaseException))

        desk = Agent(office([letters]).llm, tools=[letters], name="desk", policy=FailFast())
        inner, name = (letters, "letters") if depth == 1 else (desk.as_tool(), "desk")
        llm = office([inner], name=name).llm
        return Agent(llm, tools=[inner], budget=Budget(steps=6), on_limit="answer", policy=FailFast())

    waiting = await program().outcome("go")
    assert isinstance(waiting, Interrupted), waiting
    decisions = {item.token: Approve() for item in waiting.pending}
    answered = (await program().resume(again(waiting), decisions)).outcome
    assert (answered.text, answered.stopped_by) == ("done", "steps")
    replayed = await replay(answered, program())
    assert [*replayed.events] == [*waiting.events, *answered.events]


async def test_a_run_inside_that_its_tool_gave_up_is_the_tools_own_affair() -> None:
    """Cancelling runs downhill: a limit that the tool sets around a run is no question of the run above."""
    release = asyncio.Event()

    async def never(request: LlmRequest) -> LlmResponse:
        await release.wait()
        return LlmResponse("too late")

    slow = Agent(FunctionLlm(never), name="slow")

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask, for a moment."""
        try:
            return (await asyncio.wait_for(slow.run("t", parent=ctx), 0.01)).output
        except TimeoutError:
            return "it took too long"

    outcome = await office([ask], name="ask").outcome("q")
    assert isinstance(outcome, Completed), outcome
    assert shown(outcome) == "it took too long"


@pytest.mark.parametrize("is_tool", [True, False])
async def test_a_run_inside_that_is_cut_off_while_it_is_opened_replays(is_tool: bool) -> None:
    """Its instructions had not come: it has no event of its own."""
    asked, is_live = asyncio.Event(), True

    async def instructions() -> str:
        if is_live:
            asked.set()
            await asyncio.Event().wait()
        return "Be brief."

    inner = Agent(ScriptedLlm(["hi"]), name="letters", instructions=instructions)

    @tool
    async def letters(task: str, ctx: ToolContext) -> str:
        """Write letters."""
        return (await inner.run(task, parent=ctx)).output

    offered: Any = letters if is_tool else inner.as_tool("letters", "Writes letters.")
    agent = Agent(ScriptedLlm([say(call("letters", {"task": "ann"})), "done"]), tools=[offered])
    sink, kept = CollectingSink(), LogSink()
    run = asyncio.ensure_future(agent.outcome("go", events=[sink, kept]))
    await asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    is_live = False
    (cut,) = [event for event in sink.events if isinstance(event, StepFailed)]
    assert cut.free, "it may be run again: nothing had been done"
    replayed = await replay(kept, agent)
    assert isinstance(replayed, Interrupted)
    assert [type(event) for event in replayed.events] == [type(event) for event in sink.events]
