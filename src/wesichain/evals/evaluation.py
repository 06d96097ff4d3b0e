"""Evaluation: runs cases with an agent, and scores the results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from wesichain.agent import Agent, Completed, Failed, Interrupted, Outcome
from wesichain.core import EventSink, ToolCallingLlm
from wesichain.core.internal import opened, to_plain
from wesichain.errors import ConfigError
from wesichain.tools import CancellationToken

from .cases import Case
from .results import Report, Result, Status
from .scores import Check, Judge, Score, scores_of


async def evaluate(
    agent: Agent[Any],
    cases: Iterable[Case],
    *,
    checks: Sequence[Check] = (),
    judge: Judge | None = None,
    repeat: int = 1,
    at_once: int = 4,
    deps: Any = None,
    model: ToolCallingLlm | None = None,
    events: Sequence[EventSink] = (),
    done: Collection[Result] = (),
    on_result: Callable[[Result], None] | None = None,
    cancellation: CancellationToken | None = None,
) -> Report:
    """Run every case `repeat` times, at most `at_once` concurrently, and score the outcomes.

    `deps` are shared by all runs, or a function of the case that makes those of one run: sync, async, or a
    context manager, which is closed after the run. `model` replaces the agent's model. `done` are results of
    an earlier, interrupted evaluation of the same cases: these runs are skipped. `on_result` is called with
    each result when it is ready, so that results can be saved even if a later run fails.
    """
    chosen = tuple(cases)
    _check_arguments(chosen, judge, repeat, at_once)
    found = {(one.case, one.attempt): one for one in done}
    gate = asyncio.Semaphore(at_once)
    options: dict[str, Any] = {"events": [*events], "cancellation": cancellation}
    if model is not None:
        options["model"] = model

    async def one(case: Case, attempt: int) -> None:
        async with gate:
            async with _deps_of(case, deps) as own:
                outcome = await agent.outcome(case.task, run_id=uuid4().hex, **own, **options)
            result = _result(case, attempt, outcome, await scores_of(case, outcome, checks, judge))
        found[case.id, attempt] = result
        if on_result is not None:
            on_result(result)

    wanted = [(case, attempt) for case in chosen for attempt in range(1, repeat + 1)]
    runs = [
        asyncio.ensure_future(one(case, attempt))
        for case, attempt in wanted
        if (case.id, attempt) not in found
    ]
    try:
        await asyncio.gather(*runs)
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
    return Report(tuple(found[case.id, attempt] for case, attempt in wanted))


@asynccontextmanager
async def _deps_of(case: Case, deps: Any) -> AsyncGenerator[dict[str, Any]]:
    """The keyword arguments with the deps of a run of a case."""
    if callable(deps):
        async with opened(deps, case) as made:
            yield {"deps": made}
    else:
        yield {} if deps is None else {"deps": deps}


def _check_arguments(cases: Sequence[Case], judge: Judge | None, repeat: int, at_once: int) -> None:
    if repeat < 1 or at_once < 1:
        raise ConfigError(f"repeat and at_once are at least 1, got {repeat} and {at_once}")
    unread = next((case.id for case in cases if case.rubric), None)
    if judge is None and unread is not None:
        raise ConfigError(f"case {unread!r} has a rubric; pass a judge")


def _result(case: Case, attempt: int, outcome: Outcome[Any], scores: tuple[Score, ...]) -> Result:
    status: Status
    match outcome:
        case Completed():
            status, output, error = "completed", to_plain(outcome.output), ""
        case Failed():
            status, output, error = "failed", None, str(outcome.error)
        case Interrupted():
            status, output, error = "interrupted", None, str(outcome.reason)
    spent = outcome.spent
    return Result(
        case=case.id,
        run_id=outcome.run_id,
        attempt=attempt,
        status=status,
        scores=scores,
        output=output,
        error=error,
        steps=outcome.step,
        tool_calls=spent.tool_calls,
        usage=spent.usage,
        cost=outcome.cost,
        seconds=spent.seconds,
    )
