"""Work: a stretch of a run, and the agent or graph that runs it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from wesichain.core import EventSink
from wesichain.core.internal import Clock, Value, positions_of
from wesichain.errors import ConfigError
from wesichain.tools import CancellationToken

from .journal.inner_runs import InnerRuns
from .journal.step_journal import Step
from .store.ledger import WorkflowResult
from .store.queue import Serving

PRIORITY = 10  # of a run that is given none
OnChange = Literal["wait", "adopt"]


class Work(Value):
    """A stretch of a run to execute: its order, the recorded steps, and the function for new steps."""

    workflow_id: str
    order: str
    earlier: Sequence[str]  # the texts of the endings of earlier stretches
    recorded: Mapping[str, str]
    step: Step
    token: CancellationToken
    inner_runs: InnerRuns
    first: str = ""  # the order that the run began with, if this is a later stretch


Execute: TypeAlias = Callable[[Work], Awaitable[WorkflowResult]]
# Returns the deps or the context of a run: a function without parameters or of the run's id, maybe async.
DepsFactory: TypeAlias = Callable[[], Any | Awaitable[Any]] | Callable[[str], Any | Awaitable[Any]]


def checked_factory(make: DepsFactory | None, what: str) -> DepsFactory | None:
    """A function that returns the deps or the context of runs; `what` names it in the error."""
    given: Any = make  # a caller may ignore the annotation
    if given is not None and not callable(given):
        name, _, owner = what.partition(" of ")
        raise ConfigError(
            f"{name}={given!r:.60} of {owner} is called for each run, in the process that runs it: "
            f"pass a function, without parameters or of the run's id, that returns it"
        )
    return make


async def make_deps(make: DepsFactory | None, run_id: str) -> Any:
    """The deps or the context of a run, made again in each process that runs it."""
    if make is None:
        return None
    function: Any = make
    takes_id = positions_of(function, unknown=0)[1] > 0
    made = function(run_id) if takes_id else function()
    return await made if inspect.isawaitable(made) else made


class ServedProgram(Value):
    """An agent or a graph that this process serves."""

    serving: Serving
    execute: Execute

    @property
    def agent(self) -> str:
        return self.serving.agent


class ServiceSettings(TypedDict, total=False):
    """The settings that `configured` and a worker can change."""

    name: str | None
    database_url: str | None
    concurrency: int | None
    on_change: OnChange | None
    events: Iterable[EventSink]
    clock: Clock
