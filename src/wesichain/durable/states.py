"""States: where a durable run stands, what is listed of it, and the names that runs and agents may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self

from typing_extensions import override

from wesichain.core import JsonValue, ToolCall
from wesichain.core.internal import Question, Value
from wesichain.errors import ConfigError, DurableError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_INSIDE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@#~-]{0,127}")  # made of a run's id and those of its calls
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class RunState(StrEnum):
    """Where a run stands. `pending`: in the queue. `interrupted`: it waits for a person, or was halted."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class RunStatus(str):
    """A run's state, as the text that a `RunState` is, with the version of the program that it belongs to.

    `served`: whether a live worker serves that version; a pending run that is not served waits for one.
    """

    __slots__ = ("served", "state", "version")

    def __new__(cls, state: RunState, version: str = "", *, served: bool = False) -> Self:
        made = super().__new__(cls, state.value)
        made.state, made.version, made.served = state, version, served
        return made

    state: RunState
    version: str
    served: bool

    @property
    def value(self) -> str:
        return self.state.value

    @override
    def __eq__(self, other: object) -> bool:
        """As text: to a `RunState`, too, which a type checker would not believe otherwise."""
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    @override
    def __repr__(self) -> str:
        return f"RunStatus({str(self)!r}, version={self.version!r}, served={self.served})"


class RunSummary(Value):
    """A run, as it is listed. Times are seconds since 1970, by the database's clock.

    `version` is the program that the run belongs to; `served`: whether a live worker serves it. `task`
    is the beginning of what it was asked. What follows is known of a run that has ended or waits: its cost
    and tokens, the model, the number of steps, the tools that it called, and the beginning of its answer.
    `parent` is the run that it runs inside of, of an agent that another one uses as a tool, or that is a node
    of a graph.
    """

    run_id: str
    agent: str
    status: RunState
    version: str
    created_at: float
    updated_at: float
    error: str | None = None
    served: bool = False
    priority: int = 0
    key: str | None = None
    parent: str | None = None
    task: str = ""
    cost: float | None = None
    tokens: int | None = None
    model: str | None = None
    steps: int | None = None
    tools: tuple[str, ...] = ()
    result: str | None = None


class PendingDecision(Value, omit_defaults=True):
    """A call that waits for a person, and the run it belongs to."""

    __always__: ClassVar[tuple[str, ...]] = ("scope", "expires_at", "external", "question")

    run_id: str
    agent: str
    call: ToolCall
    token: str
    scope: tuple[str, ...] = ()
    expires_at: float | None = None
    external: bool = False  # nothing is run here: somebody provides the result
    question: Question | None = None  # it has begun, and somebody provides the answer to this
    task: str = ""  # the beginning of what the run was asked
    parameters: Mapping[str, JsonValue] | None = None  # of its arguments


_SHOWN = 500  # letters of a task, in lists


def task_preview(text: str) -> str:
    """A task as lists show it: its beginning, on one line."""
    return " ".join(text[: 2 * _SHOWN].split())[:_SHOWN]


def is_inside_id(run_id: str) -> bool:
    """Whether a run inside another can be found by this id."""
    return _INSIDE.fullmatch(run_id) is not None


def checked_id(run_id: str, *, may_be_inside: bool = False) -> str:
    given: Any = run_id  # whatever the annotation says
    if not isinstance(given, str) or not (_INSIDE if may_be_inside else _ID).fullmatch(given):
        shown = repr(given)[:150]
        raise DurableError(f"{shown} is no run id: use letters, digits and _ . : @ - (128 at most)")
    return run_id


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} is no agent's name: use letters, digits and _ . - (64 at most)")
    return name
