"""What a run is told, what a node is told, and how a node asks a person."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, fields, replace
from hashlib import sha256
from typing import Any, NoReturn, TypeAlias

from wesichain.core import Clock, EventSink, SystemClock, dataclass
from wesichain.errors import ConfigError, GraphError

from .watch import Observer

Sinks: TypeAlias = EventSink | Iterable[EventSink] | None

_LIMITS: Mapping[str, type[int] | tuple[type[int], type[float]]] = {
    "max_steps": int,
    "max_duration": (int, float),
    "node_timeout": (int, float),
    "max_visits": int,
    "cycle_window": int,
}


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Limits and listeners of one run; None is the graph's default. Times are seconds.

    `cycle_detection`: the third time that a node sees an identical state within the last
    `cycle_window` super-steps ends the run. `restart` lets a thread with unfinished work start over.
    """

    max_steps: int | None = None
    max_duration: float | None = None
    node_timeout: float | None = None
    max_visits: int | None = None
    cycle_detection: bool | None = None
    cycle_window: int | None = None
    interrupt_before: Sequence[str] = ()
    interrupt_after: Sequence[str] = ()
    observer: Observer | None = None
    thread_id: str | None = None
    events: Sinks = None
    run_id: str | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        for name, kind in _LIMITS.items():
            value: Any = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not (isinstance(value, kind) and value > 0)):
                number = "whole number" if kind is int else "number"
                raise ConfigError(f"ExecutionOptions({name}={value!r}): use a {number} above 0, or None")
        for name in ("interrupt_before", "interrupt_after"):
            nodes = getattr(self, name)
            if isinstance(nodes, str):
                object.__setattr__(self, name, (nodes,))
            elif nodes is not None and not isinstance(nodes, Collection):
                raise ConfigError(f"ExecutionOptions({name}={nodes!r}): use the names of nodes")

    def over(self, defaults: ExecutionOptions) -> ExecutionOptions:
        """These options, with the defaults where they say nothing."""
        said = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(
            defaults, **{name: value for name, value in said.items() if value is not None and value != ()}
        )


DEFAULTS = ExecutionOptions(max_steps=100, cycle_detection=True, cycle_window=20)


@dataclass(frozen=True, slots=True)
class GraphContext:
    """What a node may know of the run that it is part of.

    `remaining_steps` is `max_steps` minus the super-steps taken. `deadline` is the moment, on the
    clock's `monotonic`, at which the run is over. `events` takes events of an inner run into the
    graph's log, under the scope of this node.
    """

    remaining_steps: int | None = None
    observer: Observer | None = None
    thread_id: str | None = None
    node: str = ""
    run_id: str = ""
    step: int = 0
    scope: str = ""
    deadline: float | None = None
    events: EventSink | None = None
    clock: Clock = field(default_factory=SystemClock)


# --- interrupts ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that waits for an answer. The id is the same each time the same moment is replayed."""

    id: str
    value: Any
    node: str
    scope: str = ""


class Paused(BaseException):  # not an Exception: a node's `except Exception` must not swallow a question
    """A node waits for answers; on its way to the engine."""

    def __init__(
        self,
        interrupts: tuple[Interrupt, ...],
        *,
        memo: Any = None,
        problem: str = "",
        noted: bool = False,
    ) -> None:
        super().__init__("a node waits for an answer")
        self.interrupts = interrupts
        self.memo = memo  # data that comes back with the answer
        self.problem = problem  # what was wrong with the last answer
        self.noted = noted  # the journal has it already


class Asking:
    """What one task has asked so far, and the answers that it was given: by position, on every replay.

    `frame` is the run that it is part of, `place` names it in its thread, `inside` is the scope of what
    it runs.
    """

    __slots__ = ("_answers", "_asked", "_inner", "_node", "_place", "_scope", "frame", "inside")

    def __init__(
        self,
        frame: object,
        node: str,
        *,
        scope: str,
        inside: str,
        place: str,
        answers: Sequence[tuple[Any, Any]],
    ) -> None:
        self.frame = frame
        self.inside = inside
        self._place = place
        self._node = node
        self._scope = scope
        self._answers = answers
        self._asked = 0
        self._inner = 0

    def ask(self, value: Any, problem: str = "") -> Any:
        index = self._asked
        self._asked += 1
        if index < len(self._answers):
            return self._answers[index][0]
        raise self._pause(index, value, None, problem)

    def recall(self) -> tuple[Any, Any] | None:
        """The answer to the last question that was answered, and what was kept with it."""
        return self._answers[-1] if self._answers else None

    def pause(self, value: Any, memo: Any, problem: str) -> NoReturn:
        """Ask what was not asked before, and keep something until the answer comes."""
        raise self._pause(len(self._answers), value, memo, problem)

    def _pause(self, index: int, value: Any, memo: Any, problem: str) -> Paused:
        name = sha256(f"{self._place}\n{index}".encode()).hexdigest()[:16]
        return Paused((Interrupt(name, value, self._node, self._scope),), memo=memo, problem=problem)

    def next_inner(self) -> str:
        """The place of the next graph that this task invokes."""
        self._inner += 1
        return f"{self._place}/{self._inner}"


CURRENT: ContextVar[Asking | None] = ContextVar("wesichain_graph_task", default=None)


def interrupt(value: Any) -> Any:
    """Stop here and ask. The run ends in `GraphInterruptedError`; `graph.resume(thread_id, answer)` runs
    the node again from its top, and this call then returns the answer.
    """
    return _asking().ask(value)


def ask_again(value: Any, problem: str) -> Any:
    """`interrupt`, where the answer before was of no use; the problem is told with the question."""
    return _asking().ask(value, problem)


def pause(value: Any, memo: Any, *, problem: str = "") -> NoReturn:
    """Ask, and keep data for when the node runs again: `recall` gives it back with the answer."""
    _asking().pause(value, memo, problem)


def recall() -> tuple[Any, Any] | None:
    """The last answer that this task was given, and the data that was kept with its question."""
    task = CURRENT.get()
    return None if task is None else task.recall()


def _asking() -> Asking:
    task = CURRENT.get()
    if task is None:
        raise GraphError("interrupt() was called outside a node of a running graph")
    return task
