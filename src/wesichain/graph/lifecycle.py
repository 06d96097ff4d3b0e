"""The lifecycle of a run: its first and last event, and what its errors carry."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from wesichain.core import JsonValue, RunCompleted, RunFailed, RunInterrupted, RunStarted, Usage
from wesichain.core.internal import around
from wesichain.errors import CodecError, GraphError, GraphInterruptedError

from .checkpoints.coding import ANYTHING
from .checkpoints.fold import Pending
from .engine import GraphRun
from .nodes.frame import Frame
from .nodes.node_run import OuterUpdate
from .questions import Paused
from .state.kinds import is_mapping
from .state.schema import StateValues, copies
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
            error.state = frame.definition.schema.build(copies(run.position.values))
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
    for name, value in copies(values).items():
        with suppress(CodecError, RecursionError):
            output[name] = ANYTHING.encode(value)
    return output
