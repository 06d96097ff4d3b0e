"""Every run of the suite is recorded, and replayed when its test has ended: to the same events, or for a reason.

It is a part of every test (`tests/conftest.py`): it looks on as runs are opened and carried to their end, and as
interrupted ones go on, writes their events through a `Recorder`, reads them back, and lets the same program
replay them without its model and its tools. Of tests with many runs it takes the first six.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.quick import IS_QUICK
from wesichain.agent import Agent, AgentRuntime, Idle, Interrupted, RunOptions, replay
from wesichain.agent.calls.open_call import OpenCall
from wesichain.agent.internal import Drive
from wesichain.agent.keywords import RunKeywords
from wesichain.agent.middleware_run import MiddlewareRun
from wesichain.agent.options import run_options
from wesichain.agent.phases import begin
from wesichain.agent.playback.replay_effects import ReplayEffects
from wesichain.agent.trail import Trail
from wesichain.core import Event
from wesichain.trace import Recorder, diff, list_runs, load

MOST_RUNS = 6  # of a test
MOST_EVENTS = 2_000  # of a run
KEPT = ("budget", "deps", "instructions", "advice")  # what a replay is given again

# Tests whose runs cannot be replayed, and why.
REASONS = {
    "agent/test_bounds.py": "its models draw, and one run id is used many times",
    "agent/test_approvals.py::test_a_call_changed_after_the_approval_waits_again": (
        "somebody forged what was stored between the two halves of the run"
    ),
    "agent/test_changing_tools.py::test_a_right_that_was_taken_away_since_is_gone": (
        "the caller's deps, which no recording has, were others when the run went on"
    ),
    "agent/test_middleware.py::TestAStepAtATime::test_it_comes_to_the_same": (
        "one of its middlewares answers with the outcome of a run of its own, whose events are not this run's"
    ),
    "graph/test_options.py::test_a_budget_bounds_all_agents_of_a_graph_together": (
        "the graph's account ends the run, and is no part of the run's recording"
    ),
    "graph/test_options.py::test_what_a_thread_has_spent_is_kept_however_it_goes_on": (
        "the graph's account ends the run, and is no part of the run's recording"
    ),
    "graph/test_options.py::test_a_branch_counts_what_its_thread_has_spent_since_the_checkpoint": (
        "the graph's account ends the run, and is no part of the run's recording"
    ),
    "graph/test_options.py::test_what_an_agent_receives_again_is_not_spent_again": (
        "the graph's account ends the run, and is no part of the run's recording"
    ),
    "durable/test_agent.py::test_a_clock_that_jumps_harms_nothing": (
        "the wall clock jumps, which its events tell and its seconds do not"
    ),
    "durable/test_agent.py::test_a_run_that_waits_to_retry_is_retried_by_the_next_process": (
        "the events of a model call name the class of its error without a module: a replay finds no class of a user"
    ),
    "durable/test_agent.py::test_events_are_stored_as_the_redactor_of_the_agent_leaves_them": (
        "a replay compares events as its redactor leaves them with those of the outcome, which are as they were"
    ),
    "durable/test_handoffs.py::test_a_run_that_was_killed_goes_on_to_the_same_end": (
        "its instructions are another text each time: a journal keeps them, a replay asks again and refuses"
    ),
    "graph/react/test_records.py::test_a_run_that_was_handed_over_goes_on_as_the_other_agent": (
        "the instructions are others every time that they are asked for"
    ),
    "agent/test_tree_laws.py::test_a_tree_comes_to_the_same_end_however_it_is_run": (
        "one run id is run many times, in several processes as it were; the test replays it itself"
    ),
    "agent/test_tree_laws.py::test_thousands_come_to_the_same_end": "likewise",
    "agent/test_tree_laws.py::test_a_grove_comes_to_the_same_end_however_it_is_run": "likewise",
    "agent/test_tree_laws.py::test_a_wood_comes_to_the_same_end_however_it_is_run": "likewise",
    "agent/test_tree_laws.py::test_a_team_comes_to_the_same_end_however_it_is_run": "likewise",
    "agent/test_tree_laws.py::test_teams_do_hand_over_and_do_find_tools": "likewise",
    "testing/test_simulation.py::test_a_planted_mistake_is_found_and_shrunk": (
        "shrinking runs one run id again and again, with other faults; and one mistake runs agents outside the tree"
    ),
    "test_reference.py": "it runs nothing, and reads the signatures of what would be patched",
}


@dataclass(slots=True)
class Ran:
    """A run that has ended: what it was given, and what came of it. It may go on if it was interrupted."""

    runtime: AgentRuntime[Any]  # as it was before the run: a policy of a test may count
    task: Any
    options: dict[str, Any]
    messages: tuple[Any, ...]  # of a phase that was handed in, before the run
    steps: tuple[Any, ...]
    events: tuple[Event, ...]
    ending: type


class Again(Agent[Any]):
    """The program of a run, once more: without the sinks of its test, and with what it was given besides."""

    def __init__(self, ran: Ran) -> None:
        self.runtime = ran.runtime
        self._ran = ran

    @property
    def has_instructions(self) -> bool:
        return bool(self._ran.options.get("instructions") or self.runtime._instructions)

    async def outcome(self, task: Any, history: Any = (), conversation: Any = None, **options: Any) -> Any:
        ran = self._ran
        options |= {name: ran.options[name] for name in ("budget",) if name in ran.options}
        if isinstance(ran.task, Idle):
            info = replace(ran.task.info, events=[])
            del options["run_id"]
            return await self.runtime.run(begin(info, Trail.of([*ran.messages], [*ran.steps])), **options)
        options |= {name: ran.options[name] for name in ("instructions", "advice") if name in ran.options}
        return await self.runtime.run(task, history=history, **options)


class Watch:
    """Looks on while a test runs, and then replays what it saw; no fixture, since one costs each test a millisecond."""

    def __init__(self) -> None:
        self._patched = pytest.MonkeyPatch()
        self._seen = looked_on(self._patched)

    def end(self, new_folder: Callable[[], Path]) -> None:
        """Check the runs, with the fixtures of the test still there."""
        self._patched.undo()
        for ran in self._seen:
            if len(ran.events) <= MOST_EVENTS:
                check(ran, new_folder())


def watch(item: pytest.Item) -> Watch | None:
    """Begin to look on, except in a quick run and where there is a reason not to."""
    return None if IS_QUICK or reason_of(item.nodeid) is not None else Watch()


def looked_on(patched: pytest.MonkeyPatch) -> list[Ran]:
    """The runs that are carried to their end from now on."""
    seen: list[Ran] = []
    opened: Callable[..., Any] = AgentRuntime.open_with
    carry_on: Callable[..., Any] = AgentRuntime.resume_run
    begun: dict[int, tuple[Any, ...]] = {}  # by the identity of the run's drive, which is kept beside

    def open_(self: AgentRuntime[Any], task: Any, history: Any, given: RunOptions) -> Any:
        if len(seen) >= MOST_RUNS or not is_a_run_of_its_own(given):
            return opened(self, task, history, given)
        options = {name: getattr(given, name) for name in KEPT if getattr(given, name) is not None}
        if not isinstance(task, str | Idle):
            words = {name: options.pop(name) for name in ("instructions", "advice") if name in options}
            task = self.start(task, history=history, run_id=given.run_id, **words)
        before = (tuple(task.messages), tuple(task.steps)) if isinstance(task, Idle) else ((), ())
        twin = twin_of(self)
        drive = opened(self, task, history, given)
        begun.setdefault(id(drive), (drive, twin, task, options, *before))  # the innermost knows the model
        return drive

    def watched(kind: type[Any]) -> Callable[..., Any]:
        run_to_end: Callable[..., Any] = kind.run_to_end

        async def carried(self: Any) -> Any:
            outcome = await run_to_end(self)
            # Not the run inside its middleware, and none that is taken a step at a time.
            if type(self) is kind and getattr(self, "_stepper", None) is None:
                known = begun.pop(id(self), None)
                if known is not None:
                    _, twin, task, options, messages, steps = known
                    seen.append(Ran(twin, task, options, messages, steps, outcome.events, type(outcome)))
            return outcome

        return carried

    async def resume_run(self: AgentRuntime[Any], interrupted: Any, decisions: Any, **options: Any) -> Any:
        outcome = await carry_on(self, interrupted, decisions, **options)
        first, given = outcome.events[0], cast("RunKeywords", options)
        for ran in seen if options.get("budget") is None and is_a_run_of_its_own(run_options(given)) else ():
            is_before = ran.ending is Interrupted and ran.events[-1].run_id == first.run_id
            if is_before and ran.events[-1].seq + 1 == first.seq:
                ran.events, ran.ending = (*ran.events, *outcome.events), type(outcome)
                break
        return outcome

    patched.setattr(AgentRuntime, "open_with", open_)
    patched.setattr(AgentRuntime, "resume_run", resume_run)
    for kind in (Drive, MiddlewareRun):
        patched.setattr(kind, "run_to_end", watched(kind))
    return seen


def twin_of(runtime: AgentRuntime[Any]) -> AgentRuntime[Any]:
    """The same program, without the sinks of the test, and with a policy that has seen nothing of the run."""
    twin = copy.copy(runtime)
    twin._sinks = ()
    settings = runtime.settings
    twin.settings = replace(settings, policy=copy.deepcopy(settings.policy))
    return twin


def is_a_run_of_its_own(given: RunOptions) -> bool:
    """Not a replay, and no part of the run of another agent, which tells it."""
    is_nested = given.parent is not None and isinstance(given.parent.link, OpenCall)
    return not is_nested and getattr(given.effects, "func", None) is not ReplayEffects


def reason_of(test: str) -> str | None:
    """The reason for a test, or for all tests of its file."""
    name = test.removeprefix("tests/").partition("[")[0]
    return REASONS.get(name) or REASONS.get(name.partition("::")[0])


def check(ran: Ran, folder: Path) -> None:
    """Record the run and replay it: the same events, the same sort of end."""
    with Recorder(folder, deltas=True, max_bytes=1 << 30) as recorder:
        for event in ran.events:
            recorder.emit(event)
    (summary,) = list_runs(folder)
    recording = load(summary.path)
    again = asyncio.run(replay(recording, Again(ran), deps=ran.options.get("deps")))
    is_same = [*recording.events] == [*again.events]
    differences = [] if is_same else diff(recording, again.events)  # which takes longer than the replay
    assert not differences, "the run parts from its recording:\n" + "\n".join(map(str, differences))
    assert type(again) is ran.ending
