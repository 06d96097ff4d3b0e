"""The lifecycle of a run: its first and last event, what its errors carry, the answers it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from wesichain.core import JsonValue, RunCompleted, RunFailed, RunInterrupted, RunStarted, Usage
from wesichain.core.internal import around
from wesichain.errors import CheckpointError, CodecError, GraphError, GraphInterruptedError

from .answer_terms import check_answer, plain_answer
from .checkpoints import ANYTHING, Pending, ThreadQuestions
from .context import NO_ANSWER, Asked, NodeAnswer, Paused
from .engine import GraphRun
from .nodes import Frame, OuterUpdate
from .state import StateValues, is_mapping
from .superstep import Folded

_NO_USAGE = Usage()  # the agents inside report theirs


async def run_graph(
    frame: Frame, run: GraphRun, first: Folded | Pending, *, given: Any = None
) -> StateValues:
    """Run a graph from its first event to its last; return the values at its end.

    `first`: the input, folded, or what is pending on the checkpoint that a thread is resumed at.
    """
    if around.hook is None:
        return await _run(frame, run, first, given)
    with around.hook.workflow(frame.log.run_id) as failing:
        try:
            return await _run(frame, run, first, given)
        except (GraphInterruptedError, Paused, OuterUpdate):
            raise
        except BaseException as error:
            failing(error)
            raise


async def _run(frame: Frame, run: GraphRun, first: Folded | Pending, given: Any) -> StateValues:
    log, scope = frame.log, frame.scope
    log.emit(RunStarted, scope, 0, _task(given), "graph", resumed=not isinstance(first, Folded))
    try:
        await run.run_to_end(first)
    except BaseException as error:
        for stop in frame.on_stop:
            stop(error, run.position.values)
        _report_stop(frame, run, error)
        raise
    if log.has_listeners:
        log.emit(RunCompleted, scope, run.position.step, _output(run.position.values), _NO_USAGE)
    return run.position.values


def _report_stop(frame: Frame, run: GraphRun, error: BaseException) -> None:
    """Give the error the state so far, and make the last event of a run that did not come to its end."""
    step, name = run.position.step, type(error).__name__
    if isinstance(error, GraphError) and error.state is None:
        with suppress(Exception):  # a class of the user's may refuse its own values
            error.state = frame.definition.schema.build(run.position.values.copies())
    match error:
        case GraphInterruptedError():
            reason = str(error)
        case Paused():
            reason = f"{len(error.asked)} questions wait for an answer"
        case OuterUpdate():
            reason = "it handed over to the graph outside"
        case asyncio.CancelledError():
            reason = "the task that ran it was cancelled"
        case _:
            frame.log.emit(RunFailed, frame.scope, step, name, str(error), _NO_USAGE)
            return
    frame.log.emit(RunInterrupted, frame.scope, step, reason, _NO_USAGE)


def _task(given: Any) -> str:
    """The task of the run, for its first event: the question, where the state has one."""
    found = given.get("input", "") if is_mapping(given) else getattr(given, "user_input", "")
    return found if isinstance(found, str) else ""


def _output(values: StateValues) -> JsonValue:
    """The state at the end as JSON data, for the last event; keys that have none are left out."""
    output: dict[str, JsonValue] = {}
    for name, value in values.copies().items():
        with suppress(CodecError, RecursionError):
            output[name] = ANYTHING.encode(value)
    return output


# --- answers ---------------------------------------------------------------------------------------


def match_answers(
    thread_id: str, value: Any, questions: ThreadQuestions, *, by: str | None, now: float
) -> list[tuple[Asked, NodeAnswer]]:
    """Which question each answer is for. Without an answer, the questions whose time is over get theirs.

    Raises for an answer that fits no question, or not what its question expects.
    """
    by_id = questions.by_id
    if value is NO_ANSWER or (value is None and not by_id):
        expired = [one for one in by_id.values() if now >= (one.question.expires_at or float("inf"))]
        return [(one, NodeAnswer(one.question.default, one.memo, is_default=True)) for one in expired]
    if not by_id:
        raise CheckpointError(
            f"thread {thread_id!r}: no question waits for an answer; resume it without a value, or go back "
            f"to where it was asked with graph.resume({thread_id!r}, checkpoint_id=...) and answer then"
        )
    if is_mapping(value) and value and value.keys() <= by_id.keys():
        found = [(by_id[asked_id], answer) for asked_id, answer in value.items()]
    elif len(by_id) > 1:
        listed = ", ".join(f"{known} ({asked.question.node!r})" for known, asked in by_id.items())
        raise GraphError(f"{len(by_id)} questions wait; answer with a mapping of their ids: {listed}")
    else:
        found = [(asked, value) for asked in by_id.values()]
    answers: list[tuple[Asked, NodeAnswer]] = []
    for asked, answer in found:
        expects = asked.question.expects
        given = NodeAnswer(plain_answer(expects, answer), asked.memo, by=by)
        check_answer(expects, given.value, asked.question.node)
        answers.append((asked, given))
    return answers


def take_answers(
    pending: Pending,
    waiting: Mapping[str, tuple[Asked, ...]],
    answers: Sequence[tuple[Asked, NodeAnswer]],
) -> Pending:
    """The pending notes with the answers in them. A task whose questions all still wait is not run again.

    `waiting`: the questions that waited before, by the outermost task that each waits in.
    """
    waits = dict(waiting)
    for asked, given in answers:
        waits.pop(asked.way[0], None)
        if len(asked.way) == 1:
            known = pending.answers.get(asked.task, {})
            pending.answers[asked.task] = {**known, asked.question.name: given}
    pending.waiting, pending.moved = waits, frozenset(asked.way[0] for asked, _ in answers)
    return pending
