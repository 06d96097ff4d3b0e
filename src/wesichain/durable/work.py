"""Work: a stretch of a run, and the agent or graph that it is run for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from wesichain.core import EventSink
from wesichain.core.internal import Clock, Value, positions_of
from wesichain.errors import ConfigError
from wesichain.tools import CancellationToken

from .journal.inside import Inside
from .journal.step_journal import Step
from .store.ledger import WorkflowResult
from .store.queue import Serving

PRIORITY = 10  # of a run that is given none
OnChange = Literal["wait", "adopt"]


class Work(Value):
    """A stretch of a run, to be carried to its end: what was given and done before, and how to do more."""

    workflow_id: str
    order: str
    earlier: Sequence[str]  # the texts of the endings of earlier stretches
    recorded: Mapping[str, str]
    step: Step
    token: CancellationToken
    inside: Inside
    first: str = ""  # the order that the run began with, of a later stretch


Execute: TypeAlias = Callable[[Work], Awaitable[WorkflowResult]]
# Makes the caller's world for a run, where it runs: a function of nothing, or of the run's id; maybe async.
MakeWorld: TypeAlias = Callable[[], Any | Awaitable[Any]] | Callable[[str], Any | Awaitable[Any]]


def checked_maker(make: MakeWorld | None, what: str) -> MakeWorld | None:
    """A function that makes the deps or the context of runs; `what` says of which it is one."""
    given: Any = make  # whatever the annotation says
    if given is not None and not callable(given):
        name, _, owner = what.partition(" of ")
        raise ConfigError(
            f"{name}={given!r:.60} of {owner} is called for each run, in the process that runs it: "
            f"pass a function of nothing, or of the run's id, that returns it"
        )
    return make


async def make_world(make: MakeWorld | None, run_id: str) -> Any:
    """The caller's world for a run in this process. It is not kept: where a run goes on, it is made anew."""
    if make is None:
        return None
    function: Any = make
    takes_id = positions_of(function, unknown=0)[1] > 0
    made = function(run_id) if takes_id else function()
    return await made if inspect.isawaitable(made) else made


class ServedProgram(Value):
    """An agent or a graph as it is served here."""

    serving: Serving
    execute: Execute

    @property
    def agent(self) -> str:
        return self.serving.agent


class ServiceSettings(TypedDict, total=False):
    """The settings of a service that whoever starts a worker may change."""

    name: str | None
    database_url: str | None
    concurrency: int | None
    on_change: OnChange | None
    events: Iterable[EventSink]
    clock: Clock
