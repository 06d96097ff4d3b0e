"""Simulation: planted mistakes are found and shrunk, sound agents pass, and a seed is the same run everywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.agent import trees
from tests.conftest import ROOT
from tests.draws import chosen
from tests.testing.samples import refunds, research, support, trips
from tests.testing.samples.model import Seen
from tests.warm import python
from wesichain import Agent, Budget, LlmRequest, LlmResponse, ObserveErrors, ToolContext, tool
from wesichain.agent import Approve, Completed, Interrupted, SqliteConversations
from wesichain.core import Role, StepFailed, ToolDispatched, to_json
from wesichain.core.internal import NodeFailed
from wesichain.errors import ConfigError
from wesichain.testing import (
    Fault,
    Faults,
    FunctionLlm,
    Report,
    Scenario,
    Trace,
    calls,
    simulate,
    simulate_sync,
)
from wesichain.testing.simulation import simulate as simulating
from wesichain.testing.simulation.faults import FaultPlan
from wesichain.testing.simulation.simulate import simulated
from wesichain.trace import load

# For each mistake of a sample a seed that finds it: to look for one costs more than all the rest.
SAMPLES = {
    refunds: (11, 16, 22, 24),
    trips: (11, 11, 41, 25),
    research: (19, 23, 44, 5),
    support: (2, 24, 11, 13),
}
MISTAKES = [
    pytest.param(
        sample, mistake, seed, id=f"{sample.__name__.rpartition('.')[2]}-{mistake.replace(' ', '-')}"
    )
    for sample, seeds in SAMPLES.items()
    for mistake, seed in zip(sample.MISTAKES, seeds, strict=True)
]


@pytest.mark.parametrize(("sample", "mistake", "seed"), MISTAKES)
def test_a_planted_mistake_is_found_and_shrunk(sample: ModuleType, mistake: str, seed: int) -> None:
    (violation,) = simulate_sync(sample.scenario(mistake), seeds=[seed]).violations
    assert violation.invariant == sample.MISTAKES[mistake][0]
    assert violation.message != "AssertionError"
    assert len(violation.faults) <= 2


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sound_agent_raises_no_alarm(sample: ModuleType) -> None:
    report = simulate_sync(sample.scenario(), seeds=chosen(range(10_000), 6))
    assert report.ok, str(report)
    assert report.runs == 6


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sound_agent_raises_no_alarm_in_ten_thousand_seeds(sample: ModuleType) -> None:
    report = simulate_sync(sample.scenario(), seeds=range(10_000))
    assert report.ok, str(report)


# --- the same seed is the same run -----------------------------------------------------------------------


def digest_of(scenario: Scenario, seed: int, faults: Faults | None = None) -> str:
    with simulated(scenario, seed, faults or Faults()) as trace:
        return digest(trace)


def digest(trace: Trace) -> str:
    events = "\n".join(map(to_json, trace.events))
    return sha256(f"{events}\n{trace.faults}\n{trace.effects}".encode()).hexdigest()


def tree_scenario(seed: int, wrap: Callable[[Agent[Any, Any]], Any] = lambda agent: agent) -> Scenario:
    """A random tree of agents: nested, handed over, in parallel, with approvals at any depth."""
    spec = trees.team_of(seed) if seed % 2 else trees.tree_of(seed)

    def world() -> trees.World:
        trees.WORLD = trees.World()
        return trees.WORLD

    return Scenario(lambda: wrap(trees.build(spec)), "the question", world=world, people=trees.decide)


def check_tree(trace: Trace) -> Counter[str]:
    """See that the laws hold that every tree has under every fault; returns what was met."""
    assert trace.error is None, f"tree {trace.seed}: {trace.error}"
    keys = Counter(effect.key for effect in trace.effects["once"])
    assert not keys or max(keys.values()) == 1, f"tree {trace.seed} runs a 'once' tool twice"
    met = Counter(fault.kind for fault in trace.faults)
    met[f"{trace.processes} processes"] += 1
    met["nested"] += any(event.scope for event in trace.events)
    return met


MEETING = (0, 7, 12, 13, 14, 16, 21, 26)  # seeds that meet every fault, in runs with others inside


def test_random_trees_hold_their_laws_under_every_fault() -> None:
    seen: Counter[str] = Counter()
    before = trees.WORLD
    for seed in (*MEETING, *chosen(range(1_000), 2)):
        scenario = tree_scenario(seed)
        with simulated(scenario, seed, Faults()) as trace:
            seen += check_tree(trace)
            first = digest(trace)
        assert digest_of(scenario, seed) == first, f"tree {seed} differs"
    trees.WORLD = before
    missing = {"crash", "cancel", "tool_late", "tool_twice", "model_errs", "person_late"} - {*seen}
    assert not missing
    assert seen["3 processes"], "some runs die twice"
    assert seen["nested"] > 5


# --- what a fault does -----------------------------------------------------------------------------------


class Diary:
    """A world that notes what happens."""

    def __init__(self) -> None:
        self.lines: list[str] = []


def asks_for(*names: str) -> Any:
    """A model that asks for these tools, one after the other, and then answers."""

    def model(request: LlmRequest) -> LlmResponse:
        seen = Seen(request)
        for name in names:
            if not seen.good(name) and seen.failed(name) < 2:
                return seen.call((name, {}))
        return seen.say("done")

    return model


@tool
async def write(ctx: ToolContext[Diary]) -> str:
    """Write into the diary."""
    ctx.deps.lines.append("begin")
    try:
        await asyncio.sleep(1)
        ctx.deps.lines.append("middle")
    finally:
        ctx.deps.lines.append("finally")
    return "OK"


@tool(effect="once")
async def strike(ctx: ToolContext[Diary]) -> str:
    """Do something that must not be done twice."""
    ctx.deps.lines.append("strike")
    await asyncio.sleep(1)
    return "OK"


@tool(approval=True)
async def ask(ctx: ToolContext[Diary]) -> str:
    """Do something with approval."""
    ctx.deps.lines.append("approved")
    return "OK"


def diary(*tools: Any, **options: Any) -> Scenario:
    names = [one.name for one in tools]

    def make() -> Agent[Any, str]:
        agent_options = options.get("agent", {})
        return Agent(FunctionLlm(asks_for(*names)), tools=tools, deps_type=Diary, **agent_options)

    return Scenario(make, "go", world=Diary, people=options.get("people"))


def run(scenario: Scenario, *faults: Fault) -> tuple[Trace, list[str]]:
    with simulated(scenario, 1, Faults(only=faults)) as trace:
        assert trace.error is None
        assert [*trace.faults] == [*faults], "every fault happened"
        lines = [*trace.world.lines]
    return trace, lines


LINES = ["begin", "middle", "finally"]


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        pytest.param(Fault("tool_raises", "tool write c0"), LINES, id="raises-before-it-begins"),
        pytest.param(Fault("tool_hangs", "tool write c0"), LINES, id="hangs-before-it-begins"),
        pytest.param(Fault("tool_hangs", "tool write c0, wait 1"), ["begin", "finally", *LINES], id="hangs-half-way"),
        pytest.param(Fault("tool_late", "tool write c0"), [*LINES, *LINES], id="does-its-work-and-is-late"),
        pytest.param(Fault("tool_twice", "tool write c0"), [*LINES, *LINES], id="is-delivered-twice"),
        pytest.param(Fault("crash", "event run_started"), LINES, id="dies-at-the-start"),
        pytest.param(Fault("crash", "event tool_dispatched c0"), LINES, id="dies-before-the-tool-begins"),
        pytest.param(Fault("crash", "tool write c0, wait 1"), ["begin", *LINES], id="dies-half-way-without-finally"),
        pytest.param(Fault("crash", "tool write c0, after its work"), [*LINES, *LINES], id="dies-with-the-result"),
        pytest.param(Fault("crash", "event tool_completed c0"), LINES, id="dies-after-the-result-is-stored"),
        pytest.param(Fault("model_errs", "model call of top"), LINES, id="provider-fails"),
        pytest.param(Fault("model_cut", "model call of top"), LINES, id="reply-is-cut"),
        pytest.param(Fault("model_malformed", "model call of top"), LINES, id="reply-is-malformed"),
    ],
)  # fmt: skip
def test_a_fault_does_what_it_says(fault: Fault, lines: list[str]) -> None:
    trace, written = run(diary(write), fault)
    assert written == lines
    assert isinstance(trace.outcome, Completed)
    assert len(trace.effects["write"]) == written.count("begin")
    assert len({effect.key for effect in trace.effects["write"]}) <= 2
    assert trace.processes == (2 if fault.kind == "crash" else 1)
    messages = " ".join(event.message for event in trace.events if isinstance(event, StepFailed))
    assert ("did not finish within 30 s and was stopped" in messages) == (
        fault.kind in ("tool_hangs", "tool_late")
    )
    assert ("the connection was reset" in messages) == (fault.kind == "tool_raises")


def test_a_tool_without_a_timeout_cannot_hang() -> None:
    scenario = diary(tool(timeout=1e9)(write.function))
    with simulated(scenario, 1, Faults.none()) as trace:
        kinds = {one.kind for one in trace.possible if one.at == "tool write c0"}
    assert kinds == {"tool_raises", "tool_twice"}


@pytest.mark.parametrize("place", ["tool strike c0, wait 1", "tool strike c0, after its work"])
def test_what_must_be_done_once_is_not_done_by_the_next_process(place: str) -> None:
    trace, lines = run(diary(strike), Fault("crash", place))
    assert lines == ["strike"] or {effect.call_id for effect in trace.effects["strike"]} == {"c0", "c1"}
    assert len({effect.key for effect in trace.effects["strike"]}) == len(trace.effects["strike"])


def test_a_call_that_is_run_again_has_the_same_key() -> None:
    trace, _ = run(diary(write), Fault("crash", "tool write c0, wait 1"))
    first, second = trace.effects["write"]
    assert (first.key, first.process, first.ended) == (second.key, 1, "cut")
    assert (second.process, second.ended) == (2, "returned")


def test_the_process_dies_twice() -> None:
    trace, lines = run(
        diary(write), Fault("crash", "tool write c0, wait 1"), Fault("crash", "tool write c0, time 2, wait 1")
    )
    assert trace.processes == 3
    assert lines == ["begin", "begin", *LINES]


def test_a_cancelled_tool_cleans_up_and_the_run_is_over() -> None:
    trace, lines = run(diary(write), Fault("cancel", "tool write c0, wait 1"))
    assert lines == ["begin", "finally"]
    assert isinstance(trace.outcome, Interrupted)


def approve(_: object) -> Approve:
    return Approve()


@pytest.mark.parametrize(
    ("kind", "people", "lines"),
    [
        pytest.param("person_twice", approve, ["approved"], id="an-answer-counts-once"),
        pytest.param("person_never", approve, [], id="nobody-answers"),
        pytest.param("person_late", approve, ["approved"], id="a-week-later"),
    ],
)
def test_what_people_do(kind: str, people: Any, lines: list[str]) -> None:
    trace, written = run(diary(ask, people=people), Fault(kind, "answer to c0 ask"))
    assert written == lines
    assert isinstance(trace.outcome, Completed if lines else Interrupted)


def test_an_answer_after_its_question_has_expired_is_refused() -> None:
    scenario = diary(ask, people=approve, agent={"approval_ttl": 60.0})
    trace, lines = run(scenario, Fault("person_late", "answer to c0 ask"))
    assert lines == []
    assert isinstance(trace.outcome, Interrupted)


@pytest.mark.parametrize("people", [None, lambda pending: None])
def test_without_people_a_question_stays_open(people: Any) -> None:
    trace, lines = run(diary(ask, people=people))
    assert lines == []
    assert isinstance(trace.outcome, Interrupted)


def test_a_process_dies_while_a_person_thinks() -> None:
    trace, lines = run(diary(ask, people=approve), Fault("crash", "while it waited for c0"))
    assert (trace.processes, lines) == (2, ["approved"])


@pytest.mark.parametrize("seed", range(4))
def test_a_process_that_died_while_a_person_thought_runs_nothing_more(seed: int) -> None:
    """In a call that was delivered again: before the question is asked, or after that, as the seed says."""
    faults = (Fault("tool_twice", "tool write c0"), Fault("crash", "tool write c0, delivered again, wait 1"))
    with simulated(diary(write, ask, people=approve), seed, Faults(only=faults)) as trace:
        assert trace.faults == faults
        assert isinstance(trace.outcome, Completed)
        assert trace.processes == 2
        assert Counter(trace.world.lines) == Counter([*LINES, "begin", "approved"])


def test_time_is_virtual() -> None:
    @tool(timeout=200_000)
    async def wait(ctx: ToolContext[Diary]) -> str:
        """Take a day."""
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(86_400)
        ctx.deps.lines.append(str(asyncio.get_running_loop().time() - before))
        return "OK"

    trace, lines = run(diary(wait))
    assert float(lines[0]) == pytest.approx(86_400)
    completed = next(event for event in trace.events if event.kind == "tool_completed")
    assert completed.duration_ms >= 86_400_000  # type: ignore[union-attr]  # its kind says so
    assert trace.spent.seconds >= 86_400


def test_a_sync_tool_runs_in_its_thread_and_the_order_is_the_seeds() -> None:
    @tool
    def work(ctx: ToolContext[Diary]) -> str:
        """Work in a thread."""
        ctx.deps.lines.append("worked")
        return "OK"

    scenario = diary(work)
    assert run(scenario)[1] == ["worked"]
    assert len({digest_of(scenario, 3) for _ in range(5)}) == 1


def test_a_conversation_on_sqlite_has_a_turn_once_or_not_at_all(tmp_path: Path) -> None:
    """The process dies anywhere; the next one resumes with the conversation that the file has."""
    number = iter(range(1_000))

    class Talk(Diary):
        def __init__(self) -> None:
            super().__init__()
            self.file = tmp_path / f"{next(number)}.sqlite"

        def messages(self) -> list[str]:
            return [
                message.text for message in asyncio.run(SqliteConversations(self.file).open("ann").read())
            ]

    def a_turn_is_there_once_or_not_at_all(trace: Trace) -> None:
        said = trace.world.messages()
        assert said.count("go") == isinstance(trace.outcome, Completed), said
        assert not said or said[-1] == "done"

    scenario = Scenario(
        lambda: Agent(FunctionLlm(asks_for("write", "ask")), tools=[write, ask], deps_type=Diary),
        "go",
        world=Talk,
        people=approve,
        conversation=lambda talk: SqliteConversations(talk.file).open("ann"),
        invariants=[a_turn_is_there_once_or_not_at_all],
    )
    report = simulate_sync(scenario, seeds=chosen(range(1_000), 6))
    assert report.ok, str(report)


# --- shrinking ------------------------------------------------------------------------------------------


@tool(effect="idempotent")
async def work(number: int, ctx: ToolContext[list[int]]) -> str:
    """Do a piece of work."""
    ctx.deps.append(number)
    return "done"


def six(request: LlmRequest) -> LlmResponse | str:
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    return calls(("work", {"number": turn})) if turn < 6 else "done"


def six_pieces(least: int) -> Scenario:
    def enough(trace: Trace) -> None:
        assert len(trace.world) >= least, "too little was done"

    def make() -> Agent[Any, Any]:
        return Agent(
            FunctionLlm(six),
            tools=[work],
            deps_type=list[int],
            policy=ObserveErrors(),
            budget=Budget(steps=9),
        )

    return Scenario(make, "go", world=list, invariants=[enough])


def faulty(least: int, **more: float) -> list[str]:
    """The faults of the one violation, where every call raises."""
    report = simulate_sync(six_pieces(least), seeds=[5], faults=Faults.none(tool_raises=1.0, **more))
    (violation,) = report.violations
    return [fault.kind for fault in violation.faults]


@pytest.mark.parametrize(("least", "count"), [(6, 1), (5, 2), (4, 3)])
def test_a_violation_is_shrunk_to_the_fewest_of_its_faults(least: int, count: int) -> None:
    assert faulty(least) == ["tool_raises"] * count


def test_of_seeds_that_need_as_many_faults_the_first_is_reported() -> None:
    report = simulate_sync(six_pieces(5), seeds=[5, 7], faults=Faults.none(tool_raises=1.0))
    (violation,) = report.violations
    assert (violation.seed, len(violation.faults), violation.count) == (5, 2, 2)


def test_where_many_faults_are_needed_one_at_another_place_may_do_as_well() -> None:
    """Three of six would have to be done: four calls raise, or the run is cancelled once."""
    (kind,) = faulty(3)
    assert kind != "tool_raises"


@pytest.mark.parametrize(
    ("limits", "tries", "needed"),
    [
        pytest.param({"_MOST_TRIES": 5, "_MOST_ELSEWHERE": 0}, 10, 4, id="of-runs"),
        pytest.param({"_MOST_TURNS": 1}, 1, 6, id="of-turns-of-the-loop"),
        pytest.param({"_MOST_TURNS": 0}, 0, 6, id="of-turns-at-once"),
    ],
)
def test_shrinking_ends_at_its_limit(
    limits: dict[str, int], tries: int, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds: list[list[int]] = []

    def world() -> list[int]:
        worlds.append([])
        return worlds[-1]

    for name, limit in limits.items():
        monkeypatch.setattr(simulating, name, limit)
    simulate_sync(replace(six_pieces(3), world=world), seeds=[5], faults=Faults.none(tool_raises=1.0))
    # The seed runs twice; then the possible faults are listed without a fault, and with each that is needed.
    assert len(worlds) == 2 + tries + 1 + needed


def test_a_run_is_cancelled_once_and_dies_as_often_as_it_may() -> None:
    given = [Fault(kind, place) for kind in ("crash", "cancel") for place in "abc"]
    plan = FaultPlan(1, Faults(only=tuple(given), most_crashes=2))
    happened = [plan.at(place, [kind]) for kind in ("crash", "cancel") for place in "abc"]
    assert happened == ["crash", "crash", None, "cancel", None, None]


def test_the_faults_that_happen_are_those_that_are_given() -> None:
    with simulated(six_pieces(0), 1, Faults.none(tool_raises=1.0)) as trace:
        pass
    assert {fault.kind for fault in trace.faults} <= {"tool_raises"}
    with simulated(six_pieces(0), 1, Faults(only=trace.faults[:1])) as fewer:
        assert len(fewer.world) == 6 - len(trace.faults[:1])
    assert {fault.kind for fault in fewer.possible} >= {"tool_raises", "model_errs", "cancel", "crash"}
    assert all(isinstance(fault, Fault) for fault in fewer.possible)


# --- what is refused, and what is reported ----------------------------------------------------------------


def raises() -> Any:
    raise LookupError("no such agent")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(lambda: Agent(FunctionLlm(str), deps_type=Diary), "needs deps", id="the-agent"),
        pytest.param(lambda: 3, "it has to return an Agent", id="no-agent"),
        pytest.param(raises, "LookupError: no such agent", id="the-function"),
    ],
)
def test_a_run_that_raises_is_a_violation(make: Any, says: str) -> None:
    report = simulate_sync(Scenario(make, "go"), seeds=[0])
    assert [one.invariant for one in report.violations] == ["the run ends without an error"]
    assert says in report.violations[0].message


def test_a_run_that_never_ends_is_a_violation() -> None:
    async def model(request: LlmRequest) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    report = simulate_sync(Scenario(Agent(FunctionLlm(model)), "go"), seeds=[0], faults=Faults.none())
    assert "no timer is left" in report.violations[0].message


@pytest.mark.slow
def test_runs_that_never_end_are_not_repeated_without_bound() -> None:
    """Each costs seconds, and shrinking repeats a run up to a thousand times."""
    stuck: list[str] = []

    @tool(effect="idempotent")
    async def spin(ctx: ToolContext[list[str]]) -> str:
        """Fail to end at the third attempt."""
        ctx.deps.append("begun")
        if len(ctx.deps) > 2:
            stuck.append("for ever")
            while True:
                await asyncio.sleep(0)
        return "OK"

    def model(request: LlmRequest) -> LlmResponse:
        seen = Seen(request)
        return seen.say("done") if seen.good("spin") else seen.call(("spin", {}))

    scenario = Scenario(
        lambda: Agent(FunctionLlm(model), tools=[spin], deps_type=list[str]), "go", world=list
    )
    report = simulate_sync(scenario, seeds=range(60), faults=Faults(tool_twice=0.7, tool_late=0.3))
    (violation,) = report.violations
    assert "no end after" in str(violation)
    assert len(stuck) <= violation.count + 11, "each takes a tenth of what all shrinking may take"


def test_a_scenario_that_draws_its_own_chance_is_refused() -> None:
    answers = iter(range(100))
    scenario = Scenario(Agent(FunctionLlm(lambda request: f"answer {next(answers)}")), "go")
    with pytest.raises(ConfigError, match="cannot be repeated: event 3"):
        simulate_sync(scenario, seeds=[0])
    once = iter([Agent(FunctionLlm(lambda request: "hi"))])
    with pytest.raises(ConfigError, match=r"gave \d events, and 0 the second time"):
        simulate_sync(Scenario(lambda: next(once), "go"), seeds=[0])


def test_there_is_no_network() -> None:
    async def model(request: LlmRequest) -> str:
        await asyncio.open_connection("localhost", 80)
        return "never"

    with simulated(Scenario(Agent(FunctionLlm(model)), "go"), 0, Faults.none()) as trace:
        assert "no network" in str(trace.error or trace.events)


def test_the_loop_is_one_that_code_of_others_knows() -> None:
    async def model(request: LlmRequest) -> str:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        left = loop.create_future()
        left.add_done_callback(lambda done: done.result())  # raises CancelledError, which ends no loop
        left.cancel()
        await asyncio.sleep(0)
        return f"{loop.is_running()} {loop.is_closed()}"

    with simulated(Scenario(Agent(FunctionLlm(model)), "go"), 0, Faults.none()) as trace:
        assert isinstance(trace.outcome, Completed)
        assert trace.outcome.output == "True False"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(lambda: Faults(crash=2.0), "from 0 to 1", id="a-rate"),
        pytest.param(lambda: Scenario(3, "go"), "pass an Agent", id="an-agent"),  # type: ignore[arg-type]
        pytest.param(lambda: simulate_sync(3), "needs a Scenario", id="a-scenario"),  # type: ignore[arg-type]
        pytest.param(lambda: simulate_sync(KEPT, seeds=3), r"such as range\(3\)", id="seeds"),  # type: ignore[arg-type]
        pytest.param(lambda: Scenario(raises, "go", people=3), "pass a function", id="people"),  # type: ignore[arg-type]
        pytest.param(
            lambda: simulate_sync(diary(write), invariants=[3]),  # type: ignore[list-item]
            "functions of the Trace",
            id="an-invariant",
        ),
    ],
)
def test_wrong_use_is_named(make: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


async def test_the_synchronous_form_in_a_coroutine_is_wrong_use_and_no_violation() -> None:
    with pytest.raises(ConfigError, match=r"use 'await simulate\(\.\.\.\)' there"):
        simulate_sync(Scenario(Agent(FunctionLlm(lambda request: "hi")), "go"), seeds=[0])


async def test_in_a_coroutine() -> None:
    report = await simulate(refunds.scenario("sends mails again"), seeds=[24])
    assert [one.invariant for one in report.violations] == ["one_mail"]


KEPT: Scenario = refunds.scenario("refunds without a look")


@pytest.fixture(scope="module")
def report() -> Report:
    return simulate_sync(KEPT, seeds=range(12))


def test_a_violation_opens_in_the_viewer(report: Report, tmp_path: Path) -> None:
    violation = report.violations[0]
    saved = load(violation.save(tmp_path)).events
    assert [event.seq for event in saved] == [*range(1, len(saved) + 1)]
    own = [event for event in saved if not isinstance(event, NodeFailed)]
    assert [event.kind for event in own] == [event.kind for event in violation.recording.events]
    (fault,) = [event for event in saved if isinstance(event, NodeFailed)]
    assert (fault.node, fault.message) == ("simulated fault", str(violation.faults[0]))
    before = saved[fault.seq - 2]
    assert isinstance(before, ToolDispatched), "it stands where it happened"
    assert str(violation.faults[0]) in str(report)


PROGRAM = """
from tests.testing.samples import refunds

scenario = refunds.scenario({mistake!r})
"""


def test_a_violation_is_kept_as_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "refund_desk.py"
    module.write_text(PROGRAM.format(mistake="refunds without a look"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "refund_desk", raising=False)
    import refund_desk  # type: ignore[import-not-found]  # written above

    report = simulate_sync(refund_desk.scenario, seeds=range(12), invariants=[refunds.one_mail])
    (tmp_path / "test_kept.py").write_text(report.violations[0].test(), encoding="utf-8")
    statuses = []
    for mistake in ("refunds without a look", None):
        module.write_text(PROGRAM.format(mistake=mistake), encoding="utf-8")
        done = subprocess.run(
            [
                *python(),
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                tmp_path,
                "test_kept.py",
            ],
            env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        statuses.append(done.returncode)
    assert statuses == [1, 0], "it fails while the mistake is there, and passes without it"


def test_a_violation_is_kept_where_its_scenario_and_invariants_can_be_imported(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    violation = replace(report.violations[0], functions=(*KEPT.invariants, check_tree))
    source = violation.test()
    assert "from tests.testing.test_simulation import KEPT\n" in source
    assert "faults=faults, invariants=[check_tree])" in source
    for made, name in (lambda trace: None, "<lambda>"), (partial(check_tree), "functools.partial"):
        with pytest.raises(ConfigError, match=f"{name}.* cannot be imported: define it with 'def'"):
            replace(violation, functions=(made,)).test()
    with pytest.raises(ConfigError, match="is not in a module"):
        replace(violation, scenario=replace(KEPT)).test()
    program = sys.modules["__main__"]
    monkeypatch.setattr(program, "kept", KEPT, raising=False)
    monkeypatch.setattr(program, "__file__", "/desk/refund_desk.py", raising=False)
    assert "from refund_desk import kept\n" in violation.test()
    monkeypatch.delattr(program, "__file__")
    with pytest.raises(ConfigError, match="'kept' was defined in an interactive session"):
        violation.test()
