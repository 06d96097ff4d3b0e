"""Runs with context views: what the model is shown, told and replayed, wherever the run is stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.draws import sampled
from wesichain.agent import Agent, AgentRuntime, Completed, Failed, Interrupted, replay
from wesichain.context import ClearToolResults, Summarise, VisibleLog, Window, tokens_of
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    StepStarted,
    ToolCall,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.events import ContextReduced
from wesichain.core.internal import CancellationToken, Cut, Transcript, replace
from wesichain.errors import ConfigError, LlmTransportError
from wesichain.policy import Budget
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, Recording, diff, find_run, load

HOPS = 9


@tool
async def look(n: int) -> str:
    """Look at page n."""
    return f"page {n}: ".ljust(4_000, "x")


def reader(hops: int = HOPS, tool_name: str = "look") -> Any:
    """A model that looks at one page after another. It goes by what it is shown, and by nothing else."""

    def reply(request: LlmRequest) -> LlmResponse:
        if request.messages[0].text.startswith("You condense"):
            return LlmResponse(f"{request.messages[1].text.count('[call]')} pages", usage=Usage(100, 10))
        last = max(
            (int(one.id[1:]) for message in request.messages for one in message.tool_calls), default=-1
        )
        if last + 1 >= hops:
            return LlmResponse("done", usage=Usage(5, 1))
        args: Any = {"n": last + 1} if tool_name == "look" else {"task": f"part {last + 1}"}
        made = (ToolCall(f"c{last + 1}", tool_name, args),)
        return LlmResponse("", made, usage=Usage(5, 1), finish_reason="tool_calls")

    return reply


def never(_: Any) -> str:
    raise AssertionError("a replay asks no model")


VIEWS: dict[str, Any] = {
    "window": lambda: [Window(4_000)],
    "clear": lambda: [ClearToolResults(3_000, keep=2)],
    "summarise": lambda: [Summarise(4_000, 1_500)],
    "all": lambda: [ClearToolResults(2_500, keep=2), Summarise(2_600, 1_500), Window(6_000)],
}


def agent(model: Any, views: Any, **options: Any) -> Agent[Any, str]:
    options = {"tools": [look], "budget": Budget(steps=2_000), "clock": FakeClock(), **options}
    return Agent(model, instructions="be exact", context=views, **options)


def own_requests(model: FunctionLlm) -> list[list[Message]]:
    return [
        [*request.messages] for request in model.requests if not request.messages[0].text.startswith("You c")
    ]


def shown(events: Any, scope: str = "") -> list[list[Message]]:
    transcript = Transcript()
    found: list[list[Message]] = []
    for event in events:
        if event.scope == scope:
            transcript.take(event)
            if isinstance(event, StepStarted):
                found.append([*transcript.messages])
    return found


class Stop:
    """A sink that stops the run at an event whose field has this value."""

    def __init__(self, token: CancellationToken, **field: int) -> None:
        self.token, ((self.name, self.value),) = token, field.items()

    def emit(self, event: Event) -> None:
        if getattr(event, self.name) == self.value:
            self.token.cancel("enough")


@pytest.mark.parametrize("name", VIEWS)
async def test_the_events_tell_what_the_model_saw_and_the_log_keeps_everything(name: str) -> None:
    model = FunctionLlm(reader(), model="m")
    outcome = await agent(model, VIEWS[name]()).outcome("read it all")
    assert isinstance(outcome, Completed)
    assert any(isinstance(event, ContextReduced) for event in outcome.events)
    requests = own_requests(model)
    assert shown(outcome.events) == requests
    whole = await agent(FunctionLlm(reader(), model="m"), []).outcome("read it all")
    assert outcome.messages == whole.messages
    assert len(requests[-1]) < len(whole.messages) or name == "clear"
    for request in requests:
        assert [message.text for message in request[:2]] == ["be exact", "read it all"]
        if name != "clear":
            assert sum(map(tokens_of, request)) <= 6_000


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS)
async def test_stopped_at_any_event_it_goes_on_to_the_same_requests(name: str, tmp_path: Path) -> None:
    """The second half knows the first from its JSON alone, as in another process."""
    views = VIEWS[name]
    model = FunctionLlm(reader(), model="m")
    straight = await agent(model, views()).outcome("read", run_id="r")
    expected = own_requests(model)
    for stop_at in sampled(range(1, len(straight.events)), 4):
        token = CancellationToken()
        folder = tmp_path / str(stop_at)
        recorder = Recorder(folder)
        first = FunctionLlm(reader(), model="m")
        one = agent(first, views(), events=[Stop(token, seq=stop_at), recorder])
        cut = await one.outcome("read", run_id=f"r{stop_at}", cancellation=token)
        assert isinstance(cut, Interrupted)
        kept = to_json(cut)
        second = FunctionLlm(reader(), model="m")
        other = agent(second, views(), events=[recorder])
        done = await other.runtime.resume(from_json(Interrupted[str], kept))
        assert isinstance(done, Completed)
        assert done.messages == straight.messages
        told = [*cut.events, *done.events]
        asked = shown(told)
        assert [*own_requests(first), *own_requests(second)][-1] == expected[-1]
        assert [one for n, one in enumerate(asked) if one not in asked[:n]] == expected
        assert done.spent.usage == straight.spent.usage
        if stop_at % 7 == 0:
            recorder.flush()
            recording = load(find_run(folder, f"r{stop_at}"))
            again = await replay(recording, agent(FunctionLlm(never, model="m"), views()))
            assert not diff(recording, again.events)


@pytest.mark.parametrize(
    ("hops", "tokens"), [(60, 1_200), pytest.param(1_000, 8_000, marks=pytest.mark.slow)]
)
async def test_many_hops_run_in_a_window_and_replay_exactly(tmp_path: Path, hops: int, tokens: int) -> None:
    model = FunctionLlm(reader(hops), model="m")
    with Recorder(tmp_path) as recorder:
        outcome = await agent(model, [Window(tokens)], events=recorder).outcome("read", run_id="long")
    assert isinstance(outcome, Completed)
    assert outcome.spent.steps == hops + 1
    assert len(outcome.messages) == 2 + 2 * hops + 1
    assert max(sum(map(tokens_of, request.messages)) for request in model.requests) <= tokens
    recording = load(find_run(tmp_path, "long"))
    assert [list(request.messages) for request in recording.requests()] == own_requests(model)
    again = await replay(recording, agent(FunctionLlm(never, model="m"), [Window(tokens)]))
    assert not diff(recording, again.events)


def nest(outer: Any, inner: Any, **options: Any) -> Agent[Any, str]:
    below = agent(inner, [Summarise(4_000, 1_500), Window(6_000)], name="below")
    tools = [below.as_tool(name="ask", description="Ask it.")]
    return agent(outer, [Window(80, keep_tokens=50)], tools=tools, **options)


async def test_nested_agents_have_views_of_their_own_and_one_account(tmp_path: Path) -> None:
    outer, inner = FunctionLlm(reader(5, "ask"), model="m"), FunctionLlm(reader(8), model="m")
    with Recorder(tmp_path) as recorder:
        outcome = await nest(outer, inner, events=recorder).outcome("all", run_id="r")
    assert isinstance(outcome, Completed)
    scopes = {event.scope for event in outcome.events if isinstance(event, ContextReduced)}
    assert {"", "c0/below~1", "c1/below~1"} <= scopes
    asked = own_requests(inner)
    per_run = len(asked) // 5
    for number in range(5):
        assert shown(outcome.events, f"c{number}") == asked[number * per_run : (number + 1) * per_run]
    assert shown(outcome.events) == own_requests(outer)
    usages = [event.usage for event in outcome.events if isinstance(event, ContextReduced)]
    replies = (len(own_requests(inner)) + len(own_requests(outer))) * 6
    assert outcome.spent.usage.total_tokens == replies + sum(usage.total_tokens for usage in usages)
    recording = load(find_run(tmp_path, "r"))
    again = await replay(recording, nest(FunctionLlm(never, model="m"), FunctionLlm(never, model="m")))
    assert not diff(recording, again.events)


class TestASummary:
    async def test_it_spends_from_the_run_s_account_and_is_told(self) -> None:
        budget = Budget(steps=50, prices={"m": (1.0, 1.0), "small": (2.0, 2.0)})
        small = FunctionLlm(reader(), model="small")
        done = await agent(
            FunctionLlm(reader(), model="m"), [Summarise(4_000, 1_500, llm=small)], budget=budget
        ).outcome("read")
        told = [event for event in done.events if isinstance(event, ContextReduced)]
        assert len(told) == len(small.requests) > 1
        assert all(event.usage == Usage(100, 10) and event.cost == pytest.approx(220e-6) for event in told)
        assert done.spent.steps == HOPS + 1
        own = (HOPS + 1) * 6
        assert done.spent.usage.total_tokens == own + 110 * len(told)
        assert done.spent.cost == pytest.approx((own + 220 * len(told)) / 1e6)

    async def test_one_that_fails_is_told_and_the_run_goes_on(self) -> None:
        small = ScriptedLlm(
            [LlmTransportError("503"), "", LlmResponse("x", finish_reason="error")], model="s"
        )
        done = await agent(
            FunctionLlm(reader(20), model="m"), [Summarise(4_000, 1_500, llm=small), Window(6_000)]
        ).outcome("read")
        assert isinstance(done, Completed)
        troubles = [
            event.trouble for event in done.events if isinstance(event, ContextReduced) and event.trouble
        ]
        assert troubles[0] == "LlmTransportError: 503"
        assert small.requests, "it was asked, and its failure is no failure of the run"

    async def test_what_it_spends_counts_before_the_next_step(self) -> None:
        model = FunctionLlm(reader(), model="m")
        done = await agent(model, [Summarise(4_000, 1_500)], budget=Budget(steps=50, tokens=100)).outcome(
            "read"
        )
        assert isinstance(done, Failed)
        assert "tokens" in str(done.error)
        assert model.requests[-1].messages[0].text.startswith("You condense"), "nobody is asked after it"

    async def test_nobody_is_asked_for_one_that_cannot_be_paid(self) -> None:
        model = FunctionLlm(reader(), model="m")
        await agent(model, [Summarise(4_000, 1_500)], budget=Budget(steps=4)).outcome("read")
        assert len(model.requests) == 4

    async def test_a_stop_while_it_is_made_spends_nothing(self) -> None:
        token = CancellationToken()

        async def hang(_: Any) -> str:
            token.cancel("enough")
            await asyncio.sleep(60)
            return "late"

        model = FunctionLlm(reader(), model="m")
        views = [Summarise(4_000, 1_500, llm=FunctionLlm(hang, model="s"))]
        cut = await agent(model, views).outcome("read", cancellation=token)
        assert isinstance(cut, Interrupted)
        assert cut.spent.steps == len(model.requests)
        done = await agent(FunctionLlm(reader(), model="m"), [Summarise(4_000, 1_500)]).runtime.resume(cut)
        assert isinstance(done, Completed)
        assert done.spent.steps == HOPS + 1

    @pytest.mark.parametrize("on_limit", ["fail", "answer", "partial"])
    async def test_time_that_runs_out_meanwhile_ends_the_run(self, on_limit: Any) -> None:
        async def hang(_: Any) -> str:
            await asyncio.sleep(60)
            return "late"

        def new_agent(model: Any) -> Agent[Any, str]:
            views = [Summarise(4_000, 1_500, llm=FunctionLlm(hang, model="s"))]
            limit = Budget(50, seconds=0.5)
            return Agent(model, tools=[look], context=views, budget=limit, on_limit=on_limit)

        ended = await new_agent(FunctionLlm(reader(), model="m")).outcome("read")
        again = await replay(ended, new_agent(FunctionLlm(never, model="m")))
        assert again.events == ended.events
        assert not any(isinstance(event, ContextReduced) for event in ended.events), "nothing is sent"
        if isinstance(ended, Failed):
            assert "seconds" in str(ended.error)
        else:
            assert isinstance(ended, Completed)
            assert (ended.stopped_by, on_limit) == ("seconds", "partial")


async def test_the_last_word_is_asked_for_in_the_window_too() -> None:
    model = FunctionLlm(lambda request: reader()(request) if request.tools else "enough", model="m")
    done = await agent(model, [Window(4_000)], budget=Budget(steps=9), on_limit="answer").outcome("read")
    assert isinstance(done, Completed)
    assert done.stopped_by == "steps"
    assert shown(done.events) == own_requests(model)
    assert sum(map(tokens_of, model.requests[-1].messages)) <= 4_100


async def test_the_history_goes_before_the_run() -> None:
    history = [
        message
        for n in range(9)
        for message in (Message(Role.USER, f"q{n} " + "y" * 2_000), Message(Role.ASSISTANT, f"a{n}"))
    ]
    model = FunctionLlm(reader(3), model="m")
    done = await agent(model, [Window(4_000)]).outcome("read", history=history)
    assert shown(done.events) == own_requests(model)
    for request in own_requests(model):
        assert request[0].text == "be exact"
        assert "read" in [message.text for message in request]
        assert request[1].role is Role.USER


async def test_an_agent_without_views_shows_the_log_itself() -> None:
    model = FunctionLlm(reader(), model="m")
    outcome = await agent(model, ()).outcome("read")
    assert all(request.messages._items is outcome.trail.log.messages for request in model.requests)  # type: ignore[attr-defined]  # of a LogView


async def test_what_was_cut_stays_cut_for_an_agent_that_has_no_views_now() -> None:
    runtime = AgentRuntime(
        FunctionLlm(reader(), model="m"), [look], context=[Window(4_000)], budget=Budget(8)
    )
    token = CancellationToken()
    cut = await runtime.run("read", events=Stop(token, step_id=7), cancellation=token)
    assert isinstance(cut, Interrupted)
    model = FunctionLlm(lambda _: "done", model="m")
    done = await AgentRuntime(model, [look]).resume(from_json(Interrupted[str], to_json(cut)))
    assert isinstance(done, Completed)
    assert shown([*cut.events, *done.events])[-1] == own_requests(model)[-1]
    assert len(own_requests(model)[-1]) < len(cut.messages)


class TestWhatIsWrong:
    def test_a_view_alone_is_told(self) -> None:
        with pytest.raises(ConfigError, match=r"a list of views, such as \[Window\(8_000\)\]"):
            Agent(ScriptedLlm([]), context=Window(9))  # type: ignore[call-overload]  # the point of the test

    def test_views_that_count_otherwise(self) -> None:
        with pytest.raises(ConfigError, match="different count_tokens"):
            Agent(ScriptedLlm([]), context=[Window(9), Window(9, count_tokens=len)])

    async def test_a_view_of_one_s_own_that_parts_a_call_from_its_result(self) -> None:
        class Careless:
            name = "careless"

            def reduce(self, seen: VisibleLog) -> list[Cut] | None:
                return [Cut(2, 3)] if seen.length > 3 else None

        wrong = agent(FunctionLlm(reader(), model="m"), [Careless()])
        with pytest.raises(ConfigError, match="'careless' cuts messages 2 to 3: this separates a call"):
            await wrong.outcome("read")
