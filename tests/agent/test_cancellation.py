"""Cancellation: in every phase, inside every wait, and nothing is left behind."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from typing import Any

import pytest
from typing_extensions import override

from tests.agent.kit import ADD, add, call, check_events, kinds, say
from tests.waiting import settle, until
from tests.warm import python
from wesichain.agent import Agent, AgentRuntime, Completed, Failed, Interrupted
from wesichain.context import Summarise
from wesichain.core import LlmRequest, LlmResponse, Observation, RunInterrupted
from wesichain.core.events import ContextReduced
from wesichain.errors import LlmTransportError, ModelTransportError, ToolTimeoutError
from wesichain.middleware import Middleware
from wesichain.policy import Backoff, Budget, FailFast, Recovery, Retry
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, RunContext, ToolContext, tool
from wesichain.trace import CollectingSink


async def stop_and_wait(token: CancellationToken, task: asyncio.Task[Any]) -> Any:
    await settle()
    token.cancel("enough")
    outcome = await asyncio.wait_for(task, 5)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    check_events(outcome.events)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason == "enough"
    return outcome


async def hang(_: Any) -> str:
    await asyncio.sleep(60)
    return "late"


@tool
async def sleeper() -> str:
    """Sleeps long."""
    await asyncio.sleep(60)
    return "late"


@tool
def blocker(ctx: ToolContext) -> str:
    """Blocks a thread until it is told to stop."""
    for _ in range(500):
        if ctx.cancellation.cancelled:
            return "stopped"
        time.sleep(0.01)
    return "late"


async def test_before_the_first_model_call() -> None:
    token = CancellationToken()
    token.cancel("enough")
    llm = ScriptedLlm(["never"])
    outcome = await AgentRuntime(llm).run("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert not llm.requests
    check_events(outcome.events)


@pytest.mark.parametrize("hanging", [sleeper, blocker], ids=["async", "sync"])
async def test_during_a_tool_and_the_results_before_it_are_kept(hanging: Any) -> None:
    token = CancellationToken()
    reply = say(ADD, call(hanging.name))
    sink = CollectingSink()
    runtime = AgentRuntime(ScriptedLlm([reply, "done"]), [add, sleeper, blocker], events=sink)
    task = asyncio.create_task(runtime.run("q", cancellation=token))
    await until(lambda: kinds(sink.events).count("ToolDispatched") == 2)
    outcome = await stop_and_wait(token, task)
    assert outcome.unfinished is not None
    assert [item.value for item in outcome.unfinished.done] == [3]
    assert "ToolDispatched" in kinds(outcome.events)


async def test_while_it_waits_to_try_again() -> None:
    token = CancellationToken()
    policy = Recovery({LlmTransportError: Retry()}, backoff=Backoff(60.0, maximum=60.0))
    runtime = AgentRuntime(ScriptedLlm([LlmTransportError("503")]), policy=policy)
    await stop_and_wait(token, asyncio.create_task(runtime.run("q", cancellation=token)))


@pytest.mark.parametrize("is_own", [False, True], ids=["the-token-given", "the-token-of-the-call"])
@pytest.mark.parametrize("is_blocking", [False, True], ids=["async", "in-a-thread"])
async def test_after_a_successful_tool(is_own: bool, is_blocking: bool) -> None:
    token = CancellationToken()

    def work(ctx: ToolContext) -> str:
        """Cancels, then succeeds."""
        (ctx.cancellation if is_own else token).cancel("enough")
        return "worked"

    async def work_in_the_loop(ctx: ToolContext) -> str:
        return work(ctx)

    last = tool(work if is_blocking else work_in_the_loop, name="last", description="Cancels.")
    llm = ScriptedLlm([say(call("last")), "never"])
    outcome = await AgentRuntime(llm, [last]).run("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert len(llm.requests) == 1
    assert outcome.reason == "enough"
    if not is_blocking:  # else the run may stop before the thread has returned
        assert Observation("worked", "last-id") in outcome.steps
    check_events(outcome.events)


async def test_a_call_that_stops_its_run_stops_the_calls_beside_it() -> None:
    """The run has no token of its own before the call uses one."""
    begun = asyncio.Event()

    @tool
    async def canceller(ctx: ToolContext) -> str:
        """Stops the run when the other call has begun."""
        await begun.wait()
        ctx.cancellation.cancel("enough")
        return "stopped"

    @tool
    async def hanging() -> str:
        """Never ends by itself."""
        begun.set()
        await asyncio.Event().wait()
        return "late"

    llm = ScriptedLlm([say(call("canceller"), call("hanging"))])
    runtime = AgentRuntime(llm, [canceller, hanging], tool_concurrency=2)
    outcome = await asyncio.wait_for(runtime.run("q"), 10)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason == "enough"
    check_events(outcome.events)


async def test_from_another_thread() -> None:
    token = CancellationToken()
    task = asyncio.create_task(AgentRuntime(FunctionLlm(hang)).run("q", cancellation=token))
    await settle()
    threading.Thread(target=token.cancel, args=("enough",)).start()
    outcome = await asyncio.wait_for(task, 5)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason == "enough"
    assert kinds(outcome.events) == ["RunStarted", "StepStarted", "RunInterrupted"]


async def test_a_model_that_will_not_stop_is_left_behind() -> None:
    release = asyncio.Event()

    async def stubborn(_: Any) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    token = CancellationToken()
    task = asyncio.create_task(AgentRuntime(FunctionLlm(stubborn)).run("q", cancellation=token))
    await settle()
    token.cancel("enough")
    outcome = await asyncio.wait_for(task, 3)
    assert isinstance(outcome, Interrupted)
    release.set()
    await settle()


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_cancelling_the_task_cleans_up_tells_and_propagates(where: str) -> None:
    sink = CollectingSink()
    model: Any = FunctionLlm(hang) if where == "model" else ScriptedLlm([say(call("sleeper"))])
    task = asyncio.create_task(AgentRuntime(model, [sleeper], events=sink).run("q"))
    await until(lambda: model.requests if where == "model" else "ToolDispatched" in kinds(sink.events))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    check_events(sink.events)
    assert isinstance(sink.events[-1], RunInterrupted)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


class GivesUp:
    """A model whose first calls raise `CancelledError`, though nobody has cancelled them."""

    def __init__(self, failures: int) -> None:
        self.calls, self._failures = 0, failures

    async def complete(self, request: LlmRequest) -> LlmResponse:
        del request
        self.calls += 1
        await asyncio.sleep(0)
        if self.calls <= self._failures:
            raise asyncio.CancelledError
        return say(content="yes")


with_and_without_limits = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="alone"),
        pytest.param({"cancellation": CancellationToken()}, id="with-a-token"),
        pytest.param({"budget": Budget(seconds=60)}, id="with-a-time-limit"),
    ],
)


@with_and_without_limits
async def test_a_cancelled_error_that_nobody_asked_for_is_a_fault_of_the_model(options: Any) -> None:
    outcome = await Agent(GivesUp(1), policy=FailFast()).outcome("q", **options)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ModelTransportError)
    assert "nobody had cancelled it" in str(outcome.error)
    check_events(outcome.events)
    again = GivesUp(1)
    result = await Agent(again, policy=Recovery({ModelTransportError: Retry()})).run("q", **options)
    assert (result.output, again.calls) == ("yes", 2)


async def test_a_cancelled_error_that_nobody_asked_for_is_a_fault_of_a_check_and_of_middleware() -> None:
    async def refuse(output: str) -> str:
        del output
        raise asyncio.CancelledError

    class Refusing(Middleware):
        @override
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            raise asyncio.CancelledError

    checked = await Agent(ScriptedLlm([say(content="x")]), output_checks=[refuse]).outcome("q")
    assert isinstance(checked, Failed)
    check_events(checked.events)
    wrapped = await Agent(ScriptedLlm([]), middleware=[Refusing()]).outcome("q")
    assert isinstance(wrapped, Failed)
    assert "Refusing.wrap_run" in str(wrapped.error)
    check_events(wrapped.events)


class PassesOn(Middleware):
    @override
    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)


class RaisesForModel(Middleware):
    @override
    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        raise asyncio.CancelledError


class RaisesForTool(Middleware):
    @override
    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        await asyncio.sleep(0)
        raise asyncio.CancelledError


class CancelsAndRaises(Middleware):
    @override
    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        ctx.cancellation.cancel("enough")
        raise asyncio.CancelledError


@with_and_without_limits
class TestACancelledErrorInMiddleware:
    async def test_of_its_model_is_a_fault_of_the_model(self, options: Any) -> None:
        model, retry = GivesUp(1), Recovery({ModelTransportError: Retry()})
        result = await Agent(model, policy=retry, middleware=[PassesOn()]).run("q", **options)
        assert (result.output, model.calls) == ("yes", 2)

    @pytest.mark.parametrize("calls", [1, 2])
    @pytest.mark.parametrize("middleware", [RaisesForModel(), RaisesForTool()], ids=["model", "tool"])
    async def test_ends_the_run_and_names_the_middleware(
        self, middleware: Middleware, calls: int, options: Any
    ) -> None:
        reply = say(*(call("sleeper", id=f"c{number}") for number in range(calls)))
        outcome = await Agent(ScriptedLlm([reply]), tools=[sleeper], middleware=[middleware]).outcome(
            "q", **options
        )
        assert isinstance(outcome, Failed)
        assert type(middleware).__name__ in str(outcome.error)
        assert "nobody had cancelled it" in str(outcome.error)
        check_events(outcome.events)

    async def test_of_a_timeout_of_its_own_reaches_it(self, options: Any) -> None:
        class GivesUpSoon(Middleware):
            @override
            async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
                try:
                    async with asyncio.timeout(0.01):
                        return await call_next(request)
                except TimeoutError:
                    return say(content="too late")

        result = await Agent(FunctionLlm(hang), middleware=[GivesUpSoon()]).run("q", **options)
        assert result.output == "too late"

    async def test_of_one_that_has_stopped_the_run_interrupts_it(self, options: Any) -> None:
        if "cancellation" in options:
            options = {"cancellation": CancellationToken()}  # it is cancelled here
        outcome = await Agent(ScriptedLlm([]), middleware=[CancelsAndRaises()]).outcome("q", **options)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason == "enough"
        check_events(outcome.events)


@with_and_without_limits
async def test_a_cancelled_error_of_a_model_that_summarises_leaves_the_context_as_it_is(options: Any) -> None:
    @tool
    async def read(page: int) -> str:
        """Read a page."""
        return f"page {page}: ".ljust(400, "x")

    pages = [say(call("read", {"page": page}, id=f"c{page}")) for page in range(2)]
    view = Summarise(150, keep_tokens=50, llm=GivesUp(9))
    outcome = await Agent(ScriptedLlm([*pages, "read"]), tools=[read], context=[view]).outcome("q", **options)
    assert isinstance(outcome, Completed)
    troubles = [event.trouble for event in outcome.events if isinstance(event, ContextReduced)]
    assert any("nobody had cancelled it" in trouble for trouble in troubles)


async def test_a_run_in_a_tool_whose_time_is_up_is_cancelled_and_asks_no_more() -> None:
    """The tool's limit is a real cancel for all that runs inside it, in whatever way it is run."""
    inside = CollectingSink()

    async def cut(request: Any) -> LlmResponse:
        await asyncio.sleep(60)
        return say(content=str(request))

    model = FunctionLlm(cut)

    @tool(timeout=0.05)
    async def research() -> str:
        """Run an agent that is not below this run."""
        return (await Agent(model, events=inside).run("inner")).output

    outcome = await AgentRuntime(ScriptedLlm([say(call("research"))]), [research]).run("q")
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error.__cause__, ToolTimeoutError)
    assert isinstance(inside.events[-1], RunInterrupted)
    assert len(model.requests) == 1
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_sync_tool_is_told_when_the_task_is_cancelled() -> None:
    begun, stopped = threading.Event(), threading.Event()

    @tool
    def watch(ctx: ToolContext) -> str:
        """Waits for the word."""
        begun.set()
        for _ in range(500):
            if ctx.cancellation.cancelled:
                stopped.set()
                break
            time.sleep(0.01)
        return "x"

    task = asyncio.create_task(AgentRuntime(ScriptedLlm([say(call("watch"))]), [watch]).run("q"))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(stopped.wait, 5)


async def test_what_a_rule_has_left_at_work_is_told_when_the_task_is_cancelled() -> None:
    tokens: list[CancellationToken] = []

    def looks_on(ctx: RunContext, args: Any) -> bool:  # a rule, which takes both
        tokens.append(ctx.cancellation)
        return False

    @tool(approval=looks_on)
    async def begin() -> str:
        """Begins."""
        return "begun"

    replies = iter([say(call("begin"))])

    async def reply(request: Any) -> Any:
        return next(replies, None) or await hang(request)

    task = asyncio.create_task(AgentRuntime(FunctionLlm(reply), [begin]).run("q"))
    await until(lambda: bool(tokens))
    await settle()
    assert not tokens[0].cancelled
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tokens[0].reason == "the task that ran it was cancelled"


async def test_a_tool_that_may_run_once_is_not_run_again_when_it_was_cut_off() -> None:
    token, sent = CancellationToken(), list[str]()

    @tool(effect="once")
    async def send(to: str) -> str:
        """Send a letter; the first one takes for ever."""
        sent.append(to)
        await asyncio.sleep(60 if to == "a" else 0)
        return f"sent to {to}"

    both = say(call("send", {"to": "a"}, id="1"), call("send", {"to": "b"}, id="2"))
    runtime = AgentRuntime(ScriptedLlm([both, "ok"]), [send])
    outcome = await stop_and_wait(token, asyncio.create_task(runtime.run("q", cancellation=token)))
    resumed = await runtime.resume(outcome)
    assert isinstance(resumed, Completed)
    assert sent == ["a", "b"]
    first, second = [step.value for step in resumed.steps if isinstance(step, Observation)]
    assert str(first).startswith("[OUTCOME UNKNOWN] 'send' was cut off")
    assert second == "sent to b"


async def test_a_tool_that_may_run_once_is_not_retried_when_it_was_too_slow() -> None:
    sent: list[str] = []

    @tool(effect="once", timeout=0.02)
    async def send() -> str:
        """Send a letter."""
        sent.append("a")
        await asyncio.sleep(60)
        return "sent"

    policy = Recovery({ToolTimeoutError: Retry()})
    outcome = await AgentRuntime(ScriptedLlm([say(call("send")), "ok"]), [send], policy=policy).run("q")
    assert isinstance(outcome, Completed)
    assert sent == ["a"]
    assert "[OUTCOME UNKNOWN]" in str(outcome.messages[-2].content)


COLLECTED_WHILE_A_CALL_IS_OPENED = """
import asyncio, gc
from wesichain import Agent, ToolContext, tool
from wesichain.testing import ScriptedLlm, calls

contexts = []

@tool
async def keep(ctx: ToolContext) -> str:
    \'\'\'Keep the context.\'\'\'
    contexts.append(ctx)
    return "kept"

async def main():
    for _ in range(100):
        await Agent(ScriptedLlm([calls(("keep", {})), "done"]), tools=[keep]).run("go")

class Left:
    def __init__(self):
        self.itself = self

    def __del__(self):
        if contexts:
            contexts.pop().cancellation
            Left()

asyncio.run(main())
Left()
gc.set_threshold(1, 1, 1)
while contexts:
    contexts.pop().cancellation
"""


def test_code_that_the_garbage_collector_ends_may_use_its_context() -> None:
    """In the thread that is just opening a call: a lock that is not reentrant would never be released."""
    subprocess.run([*python(), "-c", COLLECTED_WHILE_A_CALL_IS_OPENED], check=True, timeout=120)


class _Forever:
    """A model that never answers."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing sets the result")


def test_a_run_whose_loop_has_gone_is_closed_with_its_last_event() -> None:
    """As the garbage collector closes the coroutine of a run that nobody awaits any more."""
    sink = CollectingSink()
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(AgentRuntime(_Forever(), events=sink).run("q"))
        loop.run_until_complete(until(lambda: len(sink.events) == 2))
    finally:
        loop.close()
    coroutine: Any = task.get_coro()
    coroutine.close()  # raises what the run raises in place of GeneratorExit
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # the loop has gone with the task in it
    (*_, last) = sink.events
    assert isinstance(last, RunInterrupted)
    assert last.reason == "GeneratorExit ended the program"
