"""Work: a stretch of a run, and the agent or graph that runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypedDict

from wesichain.core import EventSink
from wesichain.core.internal import Clock, Value, opened
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
# Makes the deps or the context of a run: a function without parameters or of the run's id, which may be async
# or a context manager.
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


@asynccontextmanager
async def open_deps(make: DepsFactory | None, run_id: str) -> AsyncGenerator[Any]:
    """The deps or the context of a run, made in each process that runs it, and closed with the block."""
    if make is None:
        yield None
    else:
        async with opened(make, run_id) as deps:
            yield deps


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
