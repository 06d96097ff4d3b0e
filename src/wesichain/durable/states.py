"""States: the state and the summary of a durable run, and the valid ids of runs and names of agents."""

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
    """The state of a run. `pending`: it is queued. `interrupted`: it waits for a decision, or was halted."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class RunStatus(str):
    """The state of a run, a text that is equal to a `RunState`, with the version of the run's program.

    `served`: whether a living worker serves that version; a pending run that is not served waits for one.
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
        """Compare as text, also with a `RunState`; defined for type checkers."""
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    @override
    def __repr__(self) -> str:
        return f"RunStatus({str(self)!r}, version={self.version!r}, served={self.served})"


class RunSummary(Value):
    """A run, as lists show it. Times are seconds since 1970, by the database's clock.

    `version` is that of the run's program; `served`: whether a living worker serves it. `task` is the
    beginning of its task. `parent` is the id of the outer run, if the agent is used as a tool or is a node of
    a graph. The later fields are set when the run has ended or waits: its cost and tokens, the model, the
    number of steps, the tools that it called, and the beginning of its answer.
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
    """A call that waits for a decision, and the run it belongs to."""

    __always__: ClassVar[tuple[str, ...]] = ("scope", "expires_at", "external", "question")

    run_id: str
    agent: str
    call: ToolCall
    token: str
    scope: tuple[str, ...] = ()
    expires_at: float | None = None
    external: bool = False  # its result is provided with Provide(value)
    question: Question | None = None  # the question of a call that has begun, answered with Provide(value)
    task: str = ""  # the beginning of the run's task
    parameters: Mapping[str, JsonValue] | None = None  # the schema of its arguments
    why: str = ""  # why a person is asked, where a `Flow` asks


_SHOWN = 500  # letters of a task, in lists


def task_preview(text: str) -> str:
    """The beginning of a task on one line, for lists."""
    return " ".join(text[: 2 * _SHOWN].split())[:_SHOWN]


def is_inside_id(run_id: str) -> bool:
    """Whether this is a valid id of a run inside another."""
    return _INSIDE.fullmatch(run_id) is not None


def checked_id(run_id: str, *, may_be_inside: bool = False) -> str:
    given: Any = run_id  # whatever the annotation says
    if not isinstance(given, str) or not (_INSIDE if may_be_inside else _ID).fullmatch(given):
        shown = repr(given)[:150]
        raise DurableError(f"{shown} is not a run id: use letters, digits and _ . : @ - (128 at most)")
    return run_id


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} is not a name: use letters, digits and _ . - (64 at most)")
    return name
