"""Agents over journals: runs with an id that another process continues, or whose result it returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from wesichain.core import Message, Part, Role
from wesichain.core.internal import CancellationToken, Decision, parse_json, replace
from wesichain.errors import ConfigError, RunIdConflictError
from wesichain.journal import Journals
from wesichain.journal.internal import Begin, End, JournalLog, next_moment, waits_for_time

from .calls.questions import check_all_decided
from .drive import OpenRun, PastRun
from .options import RunOptions
from .phases import Completed, Interrupted, Outcome, outcome_of, with_output
from .results.result import RunResult, result_of
from .run_place import RunPlace

if TYPE_CHECKING:
    from .agent import Agent
    from .memory.stores import RunMemory

OutT = TypeVar("OutT")


@asynccontextmanager
async def journaled(
    agent: Agent[Any, OutT],
    journals: Journals,
    task: Any,
    history: Sequence[Message],
    given: RunOptions,
    conversation: RunMemory | None = None,
) -> AsyncGenerator[OpenRun[OutT]]:
    """A run in journals, open for this process to work on. One that has ended, or waits, has its outcome.

    Without a `task`, the run is continued with the one that it began with.
    """
    run_id = given.run_id or agent.runtime.new_run_id()
    async with journals.writing(run_id) as held:
        log = held.log
        begin = log.begin_of()
        if begin is not None:
            _check(begin, task, run_id)
            if not isinstance(log.last, End) and await journals.waiting_in(log) is not None:
                waiting: OpenRun[OutT] = PastRun(outcome_of(log))
                if given.on_open is not None:
                    given.on_open(waiting)
                yield waiting
                return
            task = task_of(begin) if task is None else task
        elif task is None:
            raise ConfigError(f"there is no run {run_id!r} in these journals: run a task with this run_id")
        token = CancellationToken(*filter(None, (held.token, given.cancellation)))
        options = replace(given, run_id=None, journals=None, cancellation=token, place=RunPlace(log))
        yield await agent.open_in_place(task, history, options, conversation)


def task_of(begin: Begin) -> str | Sequence[str | Part]:
    """The task that a run began with."""
    return begin.given or [*begin.parts] or begin.task


def _check(begin: Begin, task: Any, run_id: str) -> None:
    """Raise a `RunIdConflictError` for the id of another run."""
    if begin.program_kind != "agent":
        raise RunIdConflictError(
            f"the run {run_id!r} is one of the {begin.program_kind} {begin.program!r}, not of an agent; use "
            f"another run_id"
        )
    if task is not None and _words(task) != _words(task_of(begin)):
        raise RunIdConflictError(
            f"the run {run_id!r} has another task, {begin.task[:100]!r}; use another run_id for a new task"
        )


def _words(task: Any) -> Any:
    return task if isinstance(task, str) else Message(Role.USER, tuple(task)).content


async def goes_on(journals: Journals, outcome: Outcome[Any]) -> bool:
    """Wait for the moment at which an interrupted run continues by itself; False if it waits for more."""
    if not isinstance(outcome, Interrupted) or not waits_for_time(outcome.waits):
        return False
    return next_moment(outcome.waits) is not None and await journals.wait_until_due(outcome.run_id) is None


async def prepare_resume(
    agent: Agent[Any, Any],
    journals: Journals,
    run_id: str,
    decisions: Mapping[str, Decision] | None,
    by: str | None,
) -> None:
    """Record decisions on the calls of a run in journals, and let it go on if it was stopped or has failed."""
    log = await journals.read(run_id)
    if log.begin_of() is None:
        raise ConfigError(f"there is no run {run_id!r} in these journals; list() shows those there are")
    pending = log.pending()
    if decisions:
        now = await journals.logs.now()
        check_all_decided(pending, decisions, agent.runtime.refusal_of, now=now)
        await journals.answer(run_id, decisions, by=by)
    elif pending and log.stop_reason is None:
        check_all_decided(pending, {}, agent.runtime.refusal_of, now=0.0)
    if log.stop_reason is not None or isinstance(log.last, End):
        await journals.resume(run_id, by=by)


def result_in(log: JournalLog) -> RunResult[Any]:
    """The result of an agent's run from its log alone: a typed answer is data. Raises the error of a failed run."""
    outcome, begin = outcome_of(log), log.begin_of()
    if isinstance(outcome, Completed) and begin is not None and begin.typed:
        outcome = with_output(outcome, parse_json(outcome.text))
    return result_of(outcome)
