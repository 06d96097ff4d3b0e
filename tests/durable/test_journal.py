"""The journal, without any database: a run cut anywhere goes on to the same end, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.durable.test_conversation_turns import OnlyMemory
from wesichain import Agent, AgentRuntime, Budget, ObserveErrors, Recovery, ToolContext, ToolError, tool
from wesichain.agent import Clock, Completed, Conversation, MemoryConversations, Outcome, RunMemory
from wesichain.agent.effects import LiveEffects, history_at
from wesichain.core import Event, LlmRequest, LlmResponse, Message, Role, ToolCall, ToolSpec, from_json
from wesichain.core.internal import to_plain
from wesichain.durable.journal.durable_effects import DurableEffects
from wesichain.durable.journal.records import JournalRecord, RequestHasher, StepRecord, written
from wesichain.durable.journal.step_journal import StepJournal
from wesichain.errors import CodecError, LlmTransportError, ReplayMismatchError, ToolFailedError
from wesichain.policy import Retry
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import ToolRegistry

pytestmark = pytest.mark.quick


class DeathError(BaseException):
    """The process ends here."""


class Paper:
    """Where steps are recorded, until the process dies: before a step, after its effect, or after its record."""

    def __init__(self, texts: dict[str, str], *, dies_at: int = -1, when: str = "") -> None:
        self.texts = texts
        self._dies = dies_at, when
        self._steps = 0
        self._is_dead = False

    async def step(self, name: str, act: Callable[[], Awaitable[str]]) -> str:
        number, self._steps = self._steps, self._steps + 1
        self._pass(number, "before")
        text = await act()
        self._pass(number, "acted")
        assert name not in self.texts, "a name is used once"
        self.texts[name] = text
        self._pass(number, "recorded")
        return text

    def _pass(self, number: int, moment: str) -> None:
        self._is_dead = self._is_dead or (number, moment) == self._dies
        if self._is_dead:
            raise DeathError


class World:
    """A model and tools that follow a script, and count what happens."""

    def __init__(self, script: list[Any]) -> None:
        self.script = script
        self.happened: list[str] = []

    def reply(self, request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        said = self.script[turn] if turn < len(self.script) else ["answer"]
        self.happened.append(f"ask {turn}")
        named = [kind for kind in said if kind in ("add", "pay", "fail")]
        if not named:
            return "the end"
        made = tuple(ToolCall(f"{turn}-{index}", kind, {"n": turn}) for index, kind in enumerate(named))
        return LlmResponse("", made, finish_reason="tool_calls")

    def runtime(self, sides: int) -> AgentRuntime[str]:
        @tool
        async def add(n: int, ctx: ToolContext) -> int:
            """Add."""
            self.happened.append(f"add {ctx.idempotency_key}")
            return n

        @tool(effect="once")
        async def pay(n: int, ctx: ToolContext) -> int:
            """Pay."""
            self.happened.append(f"pay {ctx.idempotency_key}")
            return n

        @tool(effect="pure")
        async def fail(n: int, ctx: ToolContext) -> int:
            """Fail."""
            self.happened.append(f"fail {ctx.idempotency_key}")
            raise ToolError(f"no {n}")

        return AgentRuntime(
            FunctionLlm(self.reply),
            [add, pay, fail],
            policy=ObserveErrors(),
            budget=Budget(steps=12),
            tool_concurrency=sides,
            exclude_after=None,
            loop_guard=None,
        )

    async def run(self, paper: Paper, sides: int) -> Outcome[str]:
        clock = FakeClock()
        journal = StepJournal(dict(paper.texts), paper.step, clock=clock, at=clock.time())
        effects = partial(DurableEffects, journal)
        return await self.runtime(sides).run("go", run_id="r", effects=effects, clock=journal)


STEPS = st.lists(st.lists(st.sampled_from(["add", "pay", "fail"]), min_size=1, max_size=3), max_size=4)
MOMENTS = st.sampled_from(["before", "acted", "recorded"])


def plain(events: tuple[Event, ...]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [to_plain(event) for event in events]
    return [{key: event[key] for key in event if key not in ("at", "duration_ms")} for event in told]


@draws(15)
@given(script=STEPS, dies_at=st.integers(0, 14), when=MOMENTS)
def test_a_run_cut_anywhere_goes_on_to_the_same_end(script: list[list[str]], dies_at: int, when: str) -> None:
    asyncio.run(cut_and_go_on(script, dies_at, when, sides=1))


@draws(15)
@given(script=STEPS, dies_at=st.integers(0, 14), when=MOMENTS)
def test_so_does_one_whose_calls_run_side_by_side(script: list[list[str]], dies_at: int, when: str) -> None:
    asyncio.run(cut_and_go_on(script, dies_at, when, sides=3))


async def cut_and_go_on(script: list[list[str]], dies_at: int, when: str, *, sides: int) -> None:
    expected = await World(script).run(Paper({}), sides)
    texts: dict[str, str] = {}
    world = World(script)
    with suppress(DeathError):
        await world.run(Paper(texts, dies_at=dies_at, when=when), sides)
    before = Counter(world.happened)
    unsure = {name.removeprefix("intent ") for name in texts if name.startswith("intent ")} - texts.keys()
    outcome = await world.run(Paper(texts), sides)
    after = Counter(world.happened)

    assert type(outcome) is type(expected)
    for line, times in after.items():
        assert times <= (1 if line.startswith("pay") else 2), line
    if not unsure:  # of others, the model is told that nobody knows what came of them
        assert outcome.messages == expected.messages
        if sides == 1:
            assert plain(outcome.events) == plain(expected.events)
    again = sum((after - before)[line] for line in before)
    assert again <= (sides if when == "acted" or sides > 1 else 0), "no more than was under way is done again"
    assert all("is unknown" in text for name, text in texts.items() if name in unsure)


async def test_a_call_whose_outcome_is_unknown_is_not_run_again_whatever_the_policy_says() -> None:
    paid: list[str] = []
    texts: dict[str, str] = {}

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        paid.append(ctx.idempotency_key)
        return "paid"

    def reply(request: LlmRequest) -> Any:
        return ToolCall("c", "pay", {}) if len(request.messages) == 1 else "done"

    async def run(dies_at: int, when: str) -> Outcome[str]:
        clock = FakeClock()
        paper = Paper(texts, dies_at=dies_at, when=when)
        kept = StepJournal({**texts}, paper.step, clock=clock, at=clock.time())
        runtime = AgentRuntime(FunctionLlm(reply), [pay], policy=Recovery({ToolFailedError: Retry()}))
        return await runtime.run("pay", run_id="r", effects=partial(DurableEffects, kept), clock=kept)

    with pytest.raises(DeathError):
        await run(2, "acted")  # the ask, the intent, the call
    with pytest.raises(DeathError):
        await run(0, "recorded")  # that nobody knows
    outcome = await run(-1, "")
    assert isinstance(outcome, Completed)
    assert "is unknown" in outcome.messages[2].content
    assert paid == ["r:1:c"]
    assert sum("is unknown" in text for text in texts.values()) == 1  # nobody asked for it again


class Talking:
    """An agent with a tool that runs another agent in a conversation, which others extend too."""

    def __init__(self, talk: RunMemory) -> None:
        self.talk = talk
        self.histories: list[tuple[str, ...]] = []  # before the task, in each request of the inner agent

    def inner_reply(self, request: LlmRequest) -> Any:
        texts = [message.text for message in request.messages if message.role is Role.USER]
        self.histories.append(tuple(texts[:-1]))
        return "it is so" if request.messages[-1].role is Role.TOOL else ToolCall("look-1", "look", {})

    async def run(self, paper: Paper, clock: FakeClock | None = None) -> Outcome[str]:
        clock = clock or FakeClock()
        kept = StepJournal(dict(paper.texts), paper.step, clock=clock, at=clock.time())

        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            return "seen"

        inner = Agent(FunctionLlm(self.inner_reply), name="inner", tools=[look])

        @tool(effect="idempotent")
        async def research(ctx: ToolContext) -> str:
            """Research."""
            return (await inner.run("is it?", conversation=self.talk, parent=ctx)).output

        def reply(request: LlmRequest) -> Any:
            return request.messages[-1].text if len(request.messages) > 1 else ToolCall("c", "research", {})

        agent = Agent(FunctionLlm(reply), tools=[research])
        return await agent.outcome("go", run_id="r", effects=partial(DurableEffects, kept), clock=kept)


TALKS: dict[str, Callable[[], RunMemory]] = {
    "object": Conversation,
    "stored": lambda: MemoryConversations().open("c"),
    "without-keys": OnlyMemory,
}


@pytest.mark.parametrize("when", ["before", "acted", "recorded"])
@pytest.mark.parametrize("dies_at", range(7))
@pytest.mark.parametrize("talk", TALKS)
async def test_a_run_inside_a_call_goes_on_with_the_history_that_it_began_with(
    talk: str, dies_at: int, when: str
) -> None:
    world, texts = Talking(TALKS[talk]()), dict[str, str]()
    await world.talk.extend(Message(Role.USER, "hello"), Message(Role.ASSISTANT, "hi"))
    with suppress(DeathError):
        await world.run(Paper(texts, dies_at=dies_at, when=when))
    is_read = "c/read 0" in texts
    await world.talk.extend(Message(Role.USER, "by the way"), Message(Role.ASSISTANT, "yes"))
    outcome = await world.run(Paper(texts))
    assert isinstance(outcome, Completed)
    assert outcome.text == "it is so"
    if is_read:
        assert set(world.histories) == {("hello",)}, "the history is read once"
    said = [message.text for message in await world.talk.read()]
    if talk != "without-keys":
        assert said.count("is it?") == said.count("it is so") == 1, "its turn is added once"


# --- the journal and its records ---------------------------------------------------------------------


def journal(texts: dict[str, str], clock: Clock, *, max_step: int = 10_000) -> StepJournal:
    return StepJournal(texts, Paper(texts).step, clock=clock, at=clock.time(), max_step=max_step)


async def test_time_passes_in_steps_and_is_told_again() -> None:
    clock, texts = FakeClock(), dict[str, str]()

    async def act() -> StepRecord:
        clock.advance(2.5)
        return StepRecord(value=1)

    async def times() -> list[tuple[float, float]]:
        run = journal({**texts}, clock)
        run._step = Paper(texts).step
        seen = [(run.time(), run.monotonic())]
        for name in ("one", "two"):
            await run.perform(name, "", act)
            seen.append((run.time(), run.monotonic()))
        await run.sleep(10)
        return [*seen, (run.time(), run.monotonic())]

    first = await times()
    assert [elapsed for _, elapsed in first] == [0.0, 2.5, 5.0, 15.0]
    clock.jump(-86_400)
    assert (await times())[1:] == first[1:]
    assert clock.slept == [10]


async def test_a_step_that_answers_to_something_else_is_refused() -> None:
    texts: dict[str, str] = {}

    async def act() -> StepRecord:
        return StepRecord()

    await journal(texts, FakeClock()).perform("ask 1", "a", act)
    with pytest.raises(ReplayMismatchError, match="'ask 1'") as caught:
        await journal(texts, FakeClock()).perform("ask 1", "b", act, step_id=1)
    assert (caught.value.step_id, caught.value.expected, caught.value.actual) == (1, "a", "b")


async def test_a_fault_of_the_model_is_the_same_fault_again() -> None:
    faults = [LlmTransportError("busy", retryable=True, retry_after=3.0)]
    texts: dict[str, str] = {}

    async def run() -> tuple[Outcome[str], list[float]]:
        clock = FakeClock()
        kept = StepJournal({**texts}, Paper(texts).step, clock=clock, at=clock.time())
        model = FunctionLlm(lambda _: faults.pop() if faults else "hello")
        runtime = AgentRuntime(model, policy=Recovery({LlmTransportError: Retry()}))
        effects = partial(DurableEffects, kept)
        return await runtime.run("hi", run_id="r", effects=effects, clock=kept), clock.slept

    (first, slept), (second, again) = await run(), await run()
    assert plain(first.events) == plain(second.events)
    assert any(event.kind == "step_failed" for event in second.events)
    assert (slept, again) == ([3.0], [])


@pytest.mark.parametrize("call_id", ["a b", "", "\0", "x" * 3_000, "ü", "1 c 1"], ids=lambda text: text[:9])
async def test_a_call_may_have_any_id(call_id: str) -> None:
    texts: dict[str, str] = {}

    @tool(effect="once")
    async def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        return ToolCall(call_id, "look", {}) if len(request.messages) == 1 else "done"

    kept = journal(texts, FakeClock())
    outcome = await AgentRuntime(FunctionLlm(reply), [look]).run(
        "go", run_id="r", effects=partial(DurableEffects, kept), clock=kept
    )
    assert isinstance(outcome, Completed)
    assert all(len(name) < 100 and name.isprintable() for name in texts)
    assert len(texts) == 4  # two asks, an intent, a call


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, asked=st.text(), elapsed=st.floats(0, 1e9))
def test_a_record_is_read_as_it_was_written(value: Any, asked: str, elapsed: float) -> None:
    record = JournalRecord(asked, 1.5, elapsed, StepRecord(value=value))
    kept, text = written(record, limit=1_000_000)
    assert from_json(JournalRecord, text) == record == kept


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        pytest.param(StepRecord(value="x" * 600), "the limit is 500", id="too-large"),
        pytest.param(StepRecord(value="\ud800"), "cannot be stored", id="no-text"),
        pytest.param(StepRecord(value=float("nan")), "cannot be stored", id="no-number"),
    ],
)
def test_what_cannot_be_kept_becomes_an_error_of_the_step(entry: StepRecord, why: str) -> None:
    _, text = written(JournalRecord("asked", 1.0, 2.0, entry), limit=500)
    read = from_json(JournalRecord, text)
    assert read.entry.raised is not None
    assert read.entry.raised.error == "CodecError"
    assert why in read.entry.raised.message


async def test_a_history_that_is_too_long_for_the_journal_is_refused_by_name() -> None:
    effects = DurableEffects(
        journal({}, FakeClock(), max_step=500), LiveEffects(ScriptedLlm([]), ToolRegistry([]))
    )

    async def read() -> list[Message]:
        return [Message(Role.USER, "x" * 600)]

    with pytest.raises(CodecError, match="the limit is 500"):
        await effects.remember(history_at(0), read)


def test_the_fingerprint_of_a_request_is_that_of_everything_said() -> None:
    def prints(*texts: str, model: str = "m", tools: tuple[ToolSpec, ...] = ()) -> list[str]:
        talk = RequestHasher()
        said = [Message(Role.USER, text) for text in texts]
        return [
            talk.fingerprint(LlmRequest(model, tuple(said[: end + 1]), tools)) for end in range(len(said))
        ]

    spec = ToolSpec("t", "", {"type": "object", "properties": {}})
    calm = prints("a", "b", "c")
    assert calm == prints("a", "b", "c")
    assert prints("a", "b", "x")[:2] == calm[:2]
    assert not set(prints("x", "b", "c")) & set(calm)
    # The tools are a part of the program's version; the model may change without one.
    assert prints("a", "b", "c", model="n") == prints("a", "b", "c", tools=(spec,)) == calm
