"""The laws of the tree of runs, over random trees: live = replayed = stopped at any event, written, read and resumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.agent.trees import (
    AgentSpec,
    World,
    build,
    cuts_of,
    grove_of,
    over,
    team_of,
    to_the_end,
    tree_of,
    wood_of,
)
from tests.draws import chosen, sampled
from wesichain.agent import Completed, Failed, Outcome, replay
from wesichain.agent.run_state import CALL_ENDED
from wesichain.core import (
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
    from_json,
    to_json,
)
from wesichain.core.events import HandedOff, ToolsOffered
from wesichain.errors import JournalMismatchError

ENDS = (RunCompleted, RunFailed, RunInterrupted)
UNKNOWN = "OUTCOME UNKNOWN"


@dataclass(frozen=True)
class Summary:
    """What must be the same, however a tree came to its end."""

    kind: str
    agent: str
    said: str
    messages: tuple[Any, ...]
    steps: int
    tokens: int
    tool_calls: int
    free_retries: int
    cost: float


def summary(outcome: Outcome[str]) -> Summary:
    said = outcome.text if isinstance(outcome, Completed) else str(getattr(outcome, "error", ""))
    spent = outcome.spent
    return Summary(
        type(outcome).__name__,
        outcome.info.agent,
        said,
        tuple(
            (message.role, message.text, tuple((call.name, str(call.args)) for call in message.tool_calls))
            for message in outcome.messages
        ),
        spent.steps,
        spent.usage.total_tokens,
        spent.tool_calls,
        spent.free_retries,
        round(spent.cost, 9),
    )


def check_log(events: Sequence[Any]) -> None:
    """The rules of events, in every scope of a run that may have gone on several times."""
    counted = [event.seq for event in events if not isinstance(event, TextDelta)]
    assert counted == list(range(1, len(counted) + 1))
    for scope in {event.scope for event in events}:
        own = [event for event in events if event.scope == scope]
        steps = [event.step_id for event in own if isinstance(event, ModelResponded)]
        assert steps == sorted(set(steps)), f"steps of {scope!r} are used twice: {steps}"
        assert isinstance(own[0], RunStarted)
        assert isinstance(own[-1], ENDS), f"{scope!r} does not end"
        is_open = False
        calls: Counter[str] = Counter()
        for event in own:
            if isinstance(event, RunStarted):
                assert not is_open, f"{scope!r} begins twice"
                is_open = True
            assert is_open, f"{event} after the end of {scope!r}"
            if isinstance(event, ENDS):
                is_open = False
                assert not +calls, f"calls of {scope!r} that never ended: {calls}"
            if isinstance(event, ToolDispatched):
                assert not calls[event.call_id]
                calls[event.call_id] += 1
            if isinstance(event, ToolCompleted | StepFailed) and event.call_id is not None:
                assert calls[event.call_id] == 1, f"{event} ends what did not begin"
                calls[event.call_id] -= 1


async def check_replay(spec: AgentSpec, outcome: Outcome[str], expected: Summary) -> None:
    world = World(is_replayed=True)
    with over(world):
        replayed = await replay(outcome, build(spec))
    assert summary(replayed) == expected
    assert (world.asked, world.effects) == (0, {})


def check_fold(outcome: Outcome[str]) -> None:
    """What the log says without the program is what the program made of it."""
    read: Any = from_json(type(outcome), to_json(outcome))
    assert summary(read) == summary(outcome)
    assert [*read.messages] == [*outcome.messages]
    assert [*read.steps] == [*outcome.steps]


def is_race(events: Sequence[Any]) -> bool:
    """Whether runs side by side raced: for the rest of a budget that they share, or to their end before a tool
    gave them up. Then it is a matter of time what each of them had done, and another order is as right.
    """
    return any(
        (isinstance(event, RunInterrupted) and event.reason == CALL_ENDED)
        or (isinstance(event, StepFailed) and event.decision == "limit")
        for event in events
    )


def may_ask_again(spec: AgentSpec) -> bool:
    """Whether a stop may have a model asked again: a stream that is cut in its middle is asked for anew, and a
    group of tasks cuts all of them when one is interrupted.
    """
    calls = [call for turn in spec.turns for call in turn]
    return any(
        call.kind in {"streamed", "grouped"} or (call.child is not None and may_ask_again(call.child))
        for call in calls
    )


def has_open_questions(outcome: Outcome[str]) -> bool:
    """Whether the run ended while a question was open, which is answered where the run is stopped before its end."""
    return any(True for _ in outcome.info.log.questions())


async def strays_end() -> None:
    """Wait for what runs that were given up still do: it belongs to the world that they began in."""
    strays = asyncio.all_tasks() - {asyncio.current_task()}
    if strays:
        await asyncio.wait(strays)


async def check_tree(spec: AgentSpec, cuts: Sequence[tuple[int, ...]], *, stream: bool) -> None:
    world = World()
    with over(world):
        live, events = await to_the_end(spec, stream=stream)
        await strays_end()
    assert isinstance(live, Completed | Failed)
    check_log(events)
    expected = summary(live)
    await check_replay(spec, live, expected)  # live = replayed
    check_fold(live)
    # live = stopped at any event, written, read by another process, and resumed
    for number, cut in enumerate(cuts):
        stops = tuple(1 + (k % len(events)) for k in cut)
        left = cut[0] % (3 * expected.steps) if number == 0 else None  # or left between two of its steps
        other = World()
        with over(other):
            try:
                outcome, told = await to_the_end(
                    spec, stop_at=stops, leave_after=left, write=True, stream=stream
                )
            except JournalMismatchError as error:
                assert "give key=" in str(error)  # branches that start runs of one agent, refused by name
                assert max(other.effects.values(), default=0) <= 1
                continue
            await strays_end()
        check_log(told)
        await check_replay(spec, outcome, summary(outcome))
        check_fold(outcome)
        if any(UNKNOWN in message.text for message in outcome.messages):
            assert max(other.effects.values(), default=0) <= 1
            continue  # a call that may run once was cut off, and the model was told
        if is_race(events) or is_race(told) or has_open_questions(live):
            assert max(other.effects.values(), default=0) <= 1
            continue
        assert summary(outcome) == expected, f"stopped at {stops}"
        assert sum(other.effects.values()) == sum(world.effects.values()), f"stopped at {stops}"
        if not stream and not may_ask_again(spec):
            assert other.asked == world.asked, f"stopped at {stops}: asked {other.asked}, not {world.asked}"


# Seeds whose trees were bugs once: some in every run, all of them in a thorough one.
FOUND = (
    *(0, 1, 3, 6, 9, 13, 14, 28, 31, 60, 63, 68, 76, 100, 109, 135, 139, 193, 295, 334, 459, 506, 629, 638),
    *(1551, 3525, 3571, 3866, 4402, 4517, 4571, 4789, 21111),
)
FOUND_IN_TEAMS = (23, 107, 137, 300, 1574)
FOUND_IN_GROVES = (
    *(106, 193, 236, 238, 265, 272, 303, 3859, 3911, 4364, 4379, 12523, 17468, 23383, 24206, 25234, 27181),
)
FOUND_IN_WOODS = (101,)
CATCHING = 13  # a row of tests/mutants names it
CATCHING_GROVE = 25234  # another names this one
EARLY = 2308  # a team that is stopped before a run inside it has begun
SEEDS = range(3_000)  # and others in every run; the slow tests take them all


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sorted({CATCHING, *sampled(FOUND, 5), *chosen(SEEDS, 4)}))
def test_a_tree_comes_to_the_same_end_however_it_is_run(seed: int) -> None:
    asyncio.run(check_tree(tree_of(seed), cuts_of(seed), stream=seed % 3 == 0))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sorted({EARLY, *sampled(FOUND_IN_TEAMS, 2), *chosen(SEEDS, 3)}))
def test_a_team_comes_to_the_same_end_however_it_is_run(seed: int) -> None:
    asyncio.run(check_tree(team_of(seed), cuts_of(seed), stream=seed % 3 == 0))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sorted({CATCHING_GROVE, *sampled(FOUND_IN_GROVES, 3), *chosen(SEEDS, 3)}))
def test_a_grove_comes_to_the_same_end_however_it_is_run(seed: int) -> None:
    """Tools that run several agents, `Finish`, models without ids, functions, playbooks, middleware, views."""
    asyncio.run(check_tree(grove_of(seed), cuts_of(seed), stream=seed % 3 == 0))


@pytest.mark.parametrize("seed", sorted({*FOUND_IN_WOODS, *chosen(range(2_000), 4)}))
def test_a_wood_comes_to_the_same_end_however_it_is_run(seed: int) -> None:
    """Tools that run agents in threads, in steps, streamed, in groups, again after a failure, and at depth."""
    asyncio.run(check_tree(wood_of(seed), cuts_of(seed, 2), stream=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "count"), [(tree_of, 20_000), (team_of, 3_000), (grove_of, 20_000), (wood_of, 2_000)]
)
def test_thousands_come_to_the_same_end(made: Callable[[int], AgentSpec], count: int) -> None:
    for seed in range(count):
        try:
            asyncio.run(check_tree(made(seed), cuts_of(seed), stream=seed % 3 == 0))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_teams_do_hand_over_and_do_find_tools() -> None:
    """What the laws above are about does happen in what they look at."""
    handed = offered = 0
    for seed in range(15):
        with over(World()):
            _, events = asyncio.run(to_the_end(team_of(seed)))
        handed += sum(isinstance(event, HandedOff) for event in events)
        offered += sum(isinstance(event, ToolsOffered) for event in events)
    assert handed >= 7
    assert offered >= 7
