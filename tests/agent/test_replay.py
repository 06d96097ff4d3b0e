"""Replay: a recorded run goes the same way again, offline, or is refused at the first difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.agent.kit import ADD, add, boom, call, echo, replayed, say
from wesichain.agent import (
    Agent,
    Approve,
    ApproveWith,
    Completed,
    Decision,
    Failed,
    Interrupted,
    Refuse,
    replay,
)
from wesichain.agent.effects import Effects
from wesichain.agent.playback.cursor import RecordingCursor
from wesichain.agent.playback.replay_effects import ReplayEffects
from wesichain.core import (
    Event,
    LlmResponse,
    RunFailed,
    RunStarted,
    ToolCompleted,
    Usage,
)
from wesichain.errors import ConfigError, ReplayMismatchError
from wesichain.policy import Budget, FailFast
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm, assert_replays
from wesichain.tools import CancellationToken, DynamicTools, tool
from wesichain.trace import Recorder, Recording, find_run, load


def never(_: Any) -> str:
    raise AssertionError("a replay asks no model")


def agent(model: Any, *tools: Any, **options: Any) -> Agent[Any, str]:
    return Agent(model, tools=tools or (add, boom, echo), instructions="be exact", **options)


def record(
    folder: Path, model: Any, *tools: Any, history: Any = (), **options: Any
) -> tuple[Recording, Path]:
    run = agent(model, *tools, events=Recorder(folder), **options)
    outcome = asyncio.run(run.outcome("what is 1 + 2?", history=history, stream=hasattr(model, "stream")))
    path = find_run(folder, outcome.run_id)
    return load(path), path


async def test_it_takes_a_recording() -> None:
    with pytest.raises(ConfigError, match=r"wesichain\.trace\.load"):
        await replay("run.jsonl", Agent(ScriptedLlm([])))  # type: ignore[arg-type]  # the point of the test


def pay_at_once(sum: int) -> str:
    """Pay an invoice."""
    return f"paid {sum}"


pay = tool(name="pay", approval=True)(pay_at_once)


TWO_PAYMENTS = say(call("pay", {"sum": 5}, id="a"), call("pay", {"sum": 7}, id="b"))


def decided(folder: Path, script: list[Any], *decisions: Decision, **options: Any) -> tuple[Recording, Path]:
    """A run that waits once for every batch of payments, and goes on with a decision for each of them."""
    run = agent(ScriptedLlm(script, model="m"), add, pay, events=Recorder(folder), **options)
    said = iter(decisions)
    outcome = asyncio.run(run.outcome("pay the invoices"))
    while isinstance(outcome, Interrupted):
        outcome = asyncio.run(
            run.runtime.resume(outcome, {item.token: next(said) for item in outcome.pending})
        )
    path = find_run(folder, outcome.run_id)
    return load(path), path


@pytest.mark.parametrize(
    ("script", "decisions", "paid"),
    [
        pytest.param([TWO_PAYMENTS, "ok"], [Approve(), Approve()], ["paid 5", "paid 7"], id="approved"),
        pytest.param(
            [TWO_PAYMENTS, "ok"], [ApproveWith({"sum": 1}), Approve()], ["paid 1", "paid 7"], id="changed"
        ),
        pytest.param([TWO_PAYMENTS, "ok"], [Refuse("too much"), Approve()], ["paid 7"], id="refused"),
        pytest.param([say(ADD), TWO_PAYMENTS, "ok"], [Refuse(), Refuse()], [], id="after-a-hop"),
        pytest.param(
            [TWO_PAYMENTS, say(call("pay", {"sum": 9}, id="c")), "ok"],
            [Approve(), Refuse(), ApproveWith({"sum": 2})],
            ["paid 5", "paid 2"],
            id="two-interruptions",
        ),
    ],
)
def test_a_run_that_went_on_goes_on_again_as_it_was_decided(
    script: list[Any], decisions: list[Decision], paid: list[str], tmp_path: Path
) -> None:
    # The clock stands where all approvals have expired long ago.
    recording, path = decided(tmp_path, script, *decisions, clock=FakeClock(), approval_ttl=60.0)
    late = agent(FunctionLlm(never, model="m"), add, pay, approval_ttl=60.0)
    outcome = assert_replays(path, late)
    assert isinstance(outcome, Completed)
    # Payments of one reply run side by side: the log has them as they arrived.
    assert sorted(
        str(event.value)
        for event in recording.events
        if isinstance(event, ToolCompleted) and event.tool_name == "pay"
    ) == sorted(paid)
    assert outcome.events == recording.events
    check_legs(outcome.events)


def check_legs(events: Sequence[Event]) -> None:
    assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
    starts = [event for event in events if isinstance(event, RunStarted)]
    assert [event.resumed for event in starts] == [False, *[True] * (len(starts) - 1)]


def test_a_program_that_no_longer_waits_is_refused(tmp_path: Path) -> None:
    _, path = decided(tmp_path, [TWO_PAYMENTS, "ok"], Approve(), Approve())
    free = agent(FunctionLlm(never, model="m"), add, tool(name="pay")(pay_at_once))
    with pytest.raises(ReplayMismatchError, match="is not in the recording"):
        asyncio.run(replay(load(path), free))


def test_it_forks_behind_a_decision(tmp_path: Path) -> None:
    _, path = decided(tmp_path, [TWO_PAYMENTS, "ok"], Approve(), Refuse("no"))
    outcome = asyncio.run(
        replay(load(path), agent(ScriptedLlm(["another end"], model="m"), add, pay), from_step=2)
    )
    assert isinstance(outcome, Completed)
    assert outcome.output == "another end"


def test_a_redacted_run_replays(tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    calls: list[Any] = [say(call("echo", {"text": f"key {secret}"})), "done"]
    recording, path = record(tmp_path, ScriptedLlm(calls, model="m"))
    assert secret not in path.read_text(encoding="utf-8")
    assert "[redacted" in path.read_text(encoding="utf-8")
    assert_replays(path, agent(FunctionLlm(never, model="m")))
    assert recording.status == "completed"


@tool(name="add")
async def changed_add(a: int, b: int, c: int = 0) -> int:
    """Add two numbers."""
    return a + b + c


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"instructions": "be quick"}, "step 1", id="another-prompt"),
        pytest.param({"tools": [changed_add, boom, echo]}, "'add' has changed", id="a-changed-tool"),
        pytest.param({"tools": [add, boom]}, "'echo' is gone", id="a-tool-that-is-gone"),
        pytest.param({"budget": Budget(1)}, "run_failed", id="a-smaller-budget-ends-otherwise"),
    ],
)
def test_a_changed_program_is_refused_at_the_first_difference(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    recording, _ = record(tmp_path, ScriptedLlm([say(ADD), "3"], model="m"))
    settings: dict[str, Any] = {"tools": [add, boom, echo], "instructions": "be exact", **changed}
    program = Agent(FunctionLlm(never, model="m"), **settings)
    with pytest.raises(ReplayMismatchError, match=words):
        asyncio.run(replay(recording, program))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda events: (), "has no beginning", id="nothing"),
        pytest.param(lambda events: events[1:], "has no beginning", id="without-its-first"),
        pytest.param(lambda events: (replace(events[0], resumed=True), *events[1:]), "in the middle of a run", id="half"),
        pytest.param(lambda events: events[:2], "breaks off before the model's reply", id="no-reply"),
        pytest.param(lambda events: events[:4], "ends before this step", id="a-call-without-its-end"),
    ],
)  # fmt: skip
def test_a_recording_that_is_not_whole_is_refused(change: Any, why: str, tmp_path: Path) -> None:
    recording, _ = record(tmp_path, ScriptedLlm([say(ADD), "3"], model="m"))
    broken = replace(recording, events=change(recording.events))
    with pytest.raises(ReplayMismatchError, match=why):
        asyncio.run(replay(broken, agent(FunctionLlm(never, model="m"))))


def test_a_recording_that_breaks_off_anywhere_is_refused_in_that_step() -> None:
    def program(model: Any, inner: Any) -> Agent[Any, str]:
        below = Agent(inner, tools=[add], name="inner")
        return Agent(model, tools=[below.as_tool()], instructions="be exact")

    script: list[Any] = [say(call("inner", {"task": "t"})), "3"]
    live = program(ScriptedLlm(script, model="m"), ScriptedLlm([say(ADD), "3"], model="m"))
    outcome = asyncio.run(live.outcome("q"))
    for last, following in pairwise(range(len(outcome.events))):
        broken = Recording(outcome.run_id, outcome.events[:following])
        with pytest.raises(ReplayMismatchError) as caught:
            asyncio.run(replay(broken, program(FunctionLlm(never, model="m"), FunctionLlm(never, model="m"))))
        known = {outcome.events[last].step_id, outcome.events[following].step_id}
        assert caught.value.step_id in known


async def test_a_replay_knows_which_calls_ended_with_runs_inside() -> None:
    below = Agent(ScriptedLlm(["3"]), name="inner")
    llm = ScriptedLlm([say(call("inner", {"task": "t"})), say(ADD), "3"])
    outcome = await Agent(llm, tools=[add, below.as_tool()]).outcome("q")
    cursor = RecordingCursor(outcome.events, None)
    effects = ReplayEffects(cursor, "", cast("Effects", None))
    assert not effects.has_runs("inner-id"), "it has not begun"
    for event in outcome.events:
        cursor.emit(event)
    assert [effects.has_runs(call_id) for call_id in ("inner-id", "add-id", "other")] == [True, False, False]


async def test_a_run_whose_task_was_cancelled_in_a_call_of_an_agent_replays() -> None:
    @tool
    async def leave() -> str:
        """Cancels the task of the run."""
        task.cancel()
        await asyncio.Event().wait()
        return "x"

    def program(*replies: Any) -> Agent[Any, str]:
        below = Agent(ScriptedLlm(replies[1:]), tools=[leave], name="inner")
        return Agent(ScriptedLlm(replies[:1]), tools=[below.as_tool()])

    drive = program(say(call("inner", {"task": "t"})), say(call("leave"))).runtime.open("q")
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(drive.outcome, Interrupted)
    again = await replayed(drive.outcome, program())
    assert isinstance(again, Interrupted)
    assert list(again.events) == list(drive.outcome.events)


async def test_a_run_inside_that_was_cut_by_the_failure_of_another_call_is_cut_again() -> None:
    begun = asyncio.Event()

    @tool
    async def fail() -> str:
        """Fails when the other call has begun."""
        await begun.wait()
        raise ValueError("out of order")

    @tool
    async def hang() -> str:
        """Never ends by itself."""
        begun.set()
        await asyncio.Event().wait()
        return "x"

    def program(*replies: Any) -> Agent[Any, str]:
        below = Agent(ScriptedLlm(replies[1:]), tools=[hang], name="inner")
        tools = [below.as_tool(), fail]
        return Agent(ScriptedLlm(replies[:1]), tools=tools, policy=FailFast(), tool_concurrency=2)

    calls = say(call("inner", {"task": "t"}), call("fail"))
    outcome = await program(calls, say(call("hang"))).outcome("q")
    assert isinstance(outcome, Failed)
    again = await asyncio.wait_for(replayed(outcome, program()), 30)
    assert list(again.events) == list(outcome.events)


@pytest.mark.parametrize("steps", [50, 1], ids=["seconds", "steps"])
def test_a_recording_of_version_0_1_has_no_seconds_and_meets_its_limit_again(steps: int) -> None:
    clock = FakeClock()

    @tool
    async def wait() -> str:
        """Takes ten seconds."""
        clock.advance(10.0)
        return "x"

    settings: dict[str, Any] = {"tools": [wait], "budget": Budget(steps, seconds=10.0 if steps == 1 else 5.0)}
    live = Agent(ScriptedLlm([say(call("wait")), "x"]), clock=clock, **settings)
    outcome = asyncio.run(live.outcome("q"))
    *before, end = outcome.events
    assert isinstance(end, RunFailed)
    assert end.error == "BudgetExceededError"
    old = SimpleNamespace(events=(*before, replace(end, seconds=0.0)), run_id=outcome.run_id)
    again = asyncio.run(replayed(old, Agent(ScriptedLlm([]), **settings)))
    assert again.events == old.events


def test_a_program_that_takes_more_steps_is_refused(tmp_path: Path) -> None:
    recording, _ = record(
        tmp_path, ScriptedLlm([say(ADD), "3"], model="m"), budget=Budget(1), on_limit="partial"
    )
    program = agent(FunctionLlm(never, model="m"), budget=Budget(5))
    with pytest.raises(ReplayMismatchError, match="ends before this step") as caught:
        asyncio.run(replay(recording, program))
    assert caught.value.step_id == 2


@pytest.mark.parametrize("on_limit", ["fail", "partial", "answer"])
def test_a_call_that_ran_out_of_time_runs_out_of_time_again(on_limit: Any, tmp_path: Path) -> None:
    @tool
    async def hang() -> str:
        """Never ends."""
        return await asyncio.sleep(600, "")

    settings: dict[str, Any] = {"budget": Budget(seconds=0.1), "on_limit": on_limit}
    script: list[Any] = [say(call("hang"), content="so far"), "at last"]
    recording, path = record(tmp_path, ScriptedLlm(script, model="m"), hang, **settings)
    assert recording.status == ("failed" if on_limit == "fail" else "completed")
    assert_replays(path, agent(FunctionLlm(never, model="m"), hang, **settings))


async def test_a_call_that_nothing_cuts_any_more_is_refused(tmp_path: Path) -> None:
    token = CancellationToken()

    @tool
    async def stop() -> str:
        """Stops the run."""
        token.cancel("enough")
        await asyncio.Event().wait()
        return "x"

    live = agent(ScriptedLlm([say(call("stop"))], model="m"), stop, events=Recorder(tmp_path))
    outcome = await live.outcome("q", cancellation=token)
    recording = load(find_run(tmp_path, outcome.run_id))
    *events, last = recording.events
    at = (last.run_id, last.step_id, last.seq, last.at)
    failed = RunFailed(*at, error="InternalInvariantError", message="odd", usage=Usage())
    recording = replace(recording, events=(*events, failed))
    with pytest.raises(ReplayMismatchError, match="never comes to StepFailed"):
        await asyncio.wait_for(replay(recording, agent(FunctionLlm(never, model="m"), stop)), 60)


def test_it_forks_from_a_step_and_goes_on_live(tmp_path: Path) -> None:
    recording, _ = record(
        tmp_path, ScriptedLlm([say(ADD), say(call("echo", {"text": "x"})), "old"], model="m")
    )
    live = FunctionLlm(lambda _: LlmResponse("new"), model="m")
    outcome = asyncio.run(replay(recording, agent(live), from_step=2))
    assert isinstance(outcome, Completed)
    assert outcome.output == "new"
    assert len(live.requests) == 1
    assert outcome.events[3] == recording.events[3]


def test_from_a_step_on_the_world_answers(tmp_path: Path) -> None:
    """Tools are offered and run, and answers checked: before it, all that comes from the recording."""
    ran: list[str] = []

    @tool
    async def spy(text: str) -> str:
        """Writes down that it ran."""
        ran.append(text)
        return text

    def check(output: str) -> str:
        ran.append(f"checked {output}")
        return output

    options: dict[str, Any] = {
        "tools": [DynamicTools(lambda ctx: [add] if ctx.step_id < 2 else [spy])],
        "output_checks": [check],
    }
    script: list[Any] = [say(ADD), say(call("spy", {"text": "old"}, id="c2")), "old"]
    first = Agent(ScriptedLlm(script, model="m"), events=Recorder(tmp_path), **options)
    recording = load(find_run(tmp_path, asyncio.run(first.outcome("q")).run_id))
    assert ran == ["old", "checked old"]
    live = ScriptedLlm([say(call("spy", {"text": "new"}, id="c2")), "new"], model="m")
    outcome = asyncio.run(replay(recording, Agent(live, **options), from_step=2))
    assert isinstance(outcome, Completed)
    assert ran == ["old", "checked old", "new", "checked new"]
    assert len(live.requests) == 2
    assert outcome.events[:6] == recording.events[:6]


def test_a_run_of_another_model_is_replayed_under_its_name_and_goes_on_with_the_agent_s(
    tmp_path: Path,
) -> None:
    own = Agent(ScriptedLlm(["new"], model="own"), tools=[add], events=Recorder(tmp_path))
    other = ScriptedLlm([say(ADD), "3"], model="other")
    recording = load(find_run(tmp_path, asyncio.run(own.outcome("q", model=other)).run_id))
    replayed = asyncio.run(replay(recording, own))
    assert isinstance(replayed, Completed)
    assert [event.model for event in replayed.events if isinstance(event, RunStarted)] == ["other"]
    for model in (None, ScriptedLlm(["new"], model="other")):
        again = asyncio.run(replay(recording, own, from_step=2, model=model))
        assert isinstance(again, Completed)
        assert again.output == "new"


def test_a_recording_that_goes_on_behind_its_end_is_refused(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, ScriptedLlm([say(ADD), "3"], model="m"))
    twice = replace(recording, events=(*recording.events, *recording.events))
    with pytest.raises(
        ReplayMismatchError, match="continues after an interruption, and the program now was not"
    ):
        asyncio.run(replay(twice, agent(FunctionLlm(never, model="m"))))
    resumed, _ = decided(tmp_path, [TWO_PAYMENTS, "ok"], Approve(), Approve())
    for whole, tools in ((recording, ()), (resumed, (add, pay))):
        longer = replace(whole, events=(*whole.events, whole.events[-1]))
        with pytest.raises(
            ReplayMismatchError, match="now ends where the recording goes on with RunCompleted"
        ):
            asyncio.run(replay(longer, agent(FunctionLlm(never, model="m"), *tools)))
