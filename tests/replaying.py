"""Every run of the suite is written, read and replayed when its test has ended: to the same outcome.

It is a part of every test (`tests/conftest.py`): it looks on as runs are carried to their end, writes their logs as
JSON, reads them back, and lets the same program run again over them, without its model and its tools. Of tests with
many runs it takes the first six.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.quick import IS_QUICK
from wesichain.agent import Agent, AgentRuntime, Failed, Interrupted, Outcome, replay
from wesichain.agent.internal import Drive
from wesichain.agent.middleware_run import MiddlewareRun
from wesichain.core import from_json, to_json

MOST_RUNS = 6  # of a test
MOST_RECORDS = 2_000  # of a run

# Tests whose runs cannot be replayed, and why.
REASONS = {
    "agent/test_handoffs.py::test_an_agent_that_hands_over_no_more_cannot_go_on_for_another": "it goes on as another program",
    "agent/test_handoffs.py::test_a_run_with_another_model_knows_a_handoff_that_was_added_since": "its program is changed between the runs",
    "agent/test_bounds.py": "its models draw, and one run id is used many times",
    "test_reference.py": "it runs nothing, and reads the signatures of what would be patched",
}


@dataclass(slots=True)
class Ran:
    """A run that has ended: its program, as it was before, and what came of it."""

    runtime: AgentRuntime[Any]
    deps: Any
    outcome: Outcome[Any]


class Again(Agent[Any]):
    """The program of a run, once more, without the sinks of its test."""

    def __init__(self, runtime: AgentRuntime[Any]) -> None:
        self.runtime = runtime
        self._instructions = runtime.instructions
        self._capabilities = None

    def check_recorded(self, first: Any, options: Any) -> None:
        """The caller may have given instructions that no program has."""


class Watch:
    """Looks on while a test runs, and then replays what it saw."""

    def __init__(self) -> None:
        self._patched = pytest.MonkeyPatch()
        self._seen = looked_on(self._patched)

    def end(self, new_folder: Callable[[], object]) -> None:
        """Check the runs, with the fixtures of the test still there."""
        del new_folder
        self._patched.undo()
        for ran in self._seen:
            if len(ran.outcome.info.log.records) <= MOST_RECORDS:
                check(ran)


def watch(item: pytest.Item) -> Watch | None:
    """Begin to look on, except in a quick run and where there is a reason not to."""
    return None if IS_QUICK or reason_of(item.nodeid) is not None else Watch()


def looked_on(patched: pytest.MonkeyPatch) -> list[Ran]:
    """The runs that are carried to their end from now on."""
    seen: list[Ran] = []
    state_of: Callable[..., Any] = AgentRuntime._state_of
    twins: dict[int, tuple[Any, AgentRuntime[Any]]] = {}  # by the identity of the state, which is kept beside

    def state(self: AgentRuntime[Any], *given: Any) -> Any:
        made = state_of(self, *given)
        if len(seen) < MOST_RUNS:
            twins[id(made[0])] = made[0], twin_of(self)
        return made

    def watched(kind: type[Any]) -> Callable[..., Any]:
        run_to_end: Callable[..., Any] = kind.run_to_end

        async def carried(self: Any) -> Any:
            outcome = await run_to_end(self)
            drive = self if isinstance(self, Drive) else self._first
            is_inside = isinstance(self, Drive) and self.holds_end
            is_own = not drive.run.log.place and drive.run.log.log.refuse is None
            known = twins.pop(id(drive.run), None)
            if known is not None and is_own and not is_inside and len(seen) < MOST_RUNS:
                own = getattr(drive, "outcome", None)
                if own is not None and getattr(self, "_stepper", None) is None:
                    seen.append(Ran(known[1], drive.run.deps, own))
            elif known is not None:
                twins[id(drive.run)] = known
            return outcome

        return carried

    patched.setattr(AgentRuntime, "_state_of", state)
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


def reason_of(test: str) -> str | None:
    """The reason for a test, or for all tests of its file."""
    name = test.removeprefix("tests/").partition("[")[0]
    return REASONS.get(name) or REASONS.get(name.partition("::")[0])


def check(ran: Ran) -> None:
    """Write the log of the run and read it; run it again: the same messages, steps, events and end."""
    outcome: Any = ran.outcome
    again: Any = from_json(type(outcome), to_json(outcome))
    assert [*again.messages] == [*outcome.messages], ([*again.messages], [*outcome.messages])
    assert [*again.steps] == [*outcome.steps]
    there, here = again.events[-len(outcome.events) :], outcome.events
    assert there == here, next(pair for pair in zip(there, here, strict=True) if pair[0] != pair[1])
    assert again.spent == outcome.spent, (again.spent, outcome.spent)
    replayed: Any = asyncio.run(replay(again, Again(ran.runtime), deps=ran.deps))
    assert type(replayed) is type(outcome)
    if isinstance(outcome, Interrupted):  # it may have been stopped before it had looked at what had come
        assert replayed.pending == outcome.pending
        return
    assert [*replayed.messages] == [*outcome.messages]
    assert [*replayed.steps] == [*outcome.steps]
    if isinstance(outcome, Failed):
        assert (type(replayed.error).__name__, str(replayed.error)) == (
            type(outcome.error).__name__,
            str(outcome.error),
        )
    else:
        assert replayed.text == outcome.text
