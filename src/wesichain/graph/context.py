"""The options of a run, the context of a node, and how a node asks a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, fields, replace
from hashlib import sha256
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, cast

from typing_extensions import TypeVar

from wesichain.core import Clock, EventSink, JsonValue
from wesichain.core.internal import SystemClock, dataclass
from wesichain.errors import ConfigError, GraphError
from wesichain.policy import Account, Budget
from wesichain.store import Store

from .answer_terms import NO_TERMS, AnswerTerms, plain_answer
from .watch import Observer

ContextT = TypeVar("ContextT", default=Any)

Sinks: TypeAlias = EventSink | Iterable[EventSink] | None

_LIMITS: Mapping[str, type[int] | tuple[type[int], type[float]]] = {
    "max_steps": int,
    "max_duration": (int, float),
    "node_timeout": (int, float),
    "max_visits": int,
    "cycle_window": int,
    "max_concurrency": int,
}


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Limits and listeners of one run; None is the graph's default. Times are seconds.

    `cycle_detection`: the third time that a node sees an identical state within the last
    `cycle_window` super-steps ends the run. `restart` lets a thread with unfinished work start over.
    `max_concurrency`: how many tasks of a super-step run at once. `budget`: what all agents of the run may
    spend together; what its thread has spent before counts.
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
    max_concurrency: int | None = None
    budget: Budget | None = None

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


class Record(Protocol):
    """The record of things that a task must not do again when it is run anew: plain data, by name."""

    def read(self, name: str) -> JsonValue:
        """The data written under this name, in this attempt or one before; None if there is none."""
        ...

    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        """Keep something. When this returns, it is safe. What has an id that is used `once` is kept for as
        long as the thread is: whoever goes back, or forks, finds it there.
        """
        ...

    def read_once(self, once: str) -> JsonValue:
        """The data last written under this id, on any branch of the thread; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class GraphContext(Generic[ContextT]):
    """The context of a node: the run that it is part of, as far as a node may know it.

    `context` is what the run was given (`graph.invoke(state, context=...)`); it is never stored.
    `remaining_steps` is `max_steps` minus the super-steps taken. `deadline` is the moment, on the
    clock's `monotonic`, at which the run is over. `events` takes events of an inner run into the
    graph's log, under the scope of this node. `is_streamed`: somebody reads text while it comes.
    `record` is what the node did when it was run before, if its super-step was not finished then. `store` is
    the graph's (`build(store=...)`), for what outlives a thread. `account` is what the run may spend, and has
    spent: agents in its nodes draw on it.
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
    context: ContextT = cast("Any", None)  # None, whatever the type: nothing was given
    is_streamed: bool = False
    on_emit: Callable[[Any], None] | None = None
    record: Record | None = None
    store: Store | None = None
    account: Account | None = None

    def emit(self, value: Any) -> None:
        """Emit a value to streams of the run with the mode "custom"; without one it is dropped."""
        if self.on_emit is not None:
            self.on_emit(value)


# --- interrupts ------------------------------------------------------------------------------------


class NoAnswer:
    """The default answer of `resume`, which stands for none: None is an answer like any other."""

    __slots__ = ()


NO_ANSWER: Final = NoAnswer()


@dataclass(frozen=True, slots=True)
class GraphInterrupt:
    """A question that waits for an answer. The id is the same each time the same moment is replayed.

    `name` tells it from the other questions of its task: that which `interrupt` was given, or its number.
    `expects` is the JSON schema of an answer. From `expires_at` on, a resume without a value goes on with
    `default`.
    """

    id: str
    value: Any
    node: str
    scope: str = ""
    name: str = ""
    expects: Mapping[str, Any] | None = None
    expires_at: float | None = None
    default: Any = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and its answer: by whom (`resume(by=...)`), and when."""

    question: GraphInterrupt
    answer: Any
    by: str | None
    at: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way to a person, and back: `memo` comes back with the answer, `owner` and `task` say
    where in the thread that is put. They are empty until the journal has it.
    """

    question: GraphInterrupt
    memo: Any = None
    owner: str = ""
    task: str = ""

    @property
    def way(self) -> list[str]:
        """The tasks on the way down to it, itself last."""
        return [*tasks_of(self.owner), self.task]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer to a question, and the memo that the node kept for that moment. `is_default`: nobody gave
    it; the time for one was over. `by`: who gave it, on its way to the thread.
    """

    value: Any
    memo: Any = None
    is_default: bool = False
    by: str | None = None


def quoted(task_id: str) -> str:
    """A task's id as one part of an owner's path, which is checkpoint/task/call, again and again."""
    return task_id.replace("%", "%25").replace("/", "%2F")


def unquoted(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def tasks_of(owner: str) -> list[str]:
    return [unquoted(part) for part in owner.split("/")[1::3]]


class Paused(BaseException):  # not an Exception: a node's `except Exception` must not swallow a question
    """A node waits for answers; on its way to the engine. `problem`: what was wrong with the last answer."""

    def __init__(self, asked: tuple[Asked, ...], *, problem: str = "") -> None:
        super().__init__("a node waits for an answer")
        self.asked = asked
        self.problem = problem


class NodeQuestion:
    """The questions of one task so far, and the answers to them: by name, on every replay.

    `frame` is that of the run; `locate` returns where in its thread the task is kept, and what names it for
    good.
    """

    __slots__ = ("_answers", "_asked", "_inner", "_locate", "_node", "frame", "is_alone", "task")

    def __init__(
        self,
        frame: Any,
        node: str,
        task: str,
        *,
        locate: Callable[[], tuple[str, str]],
        answers: Mapping[str, NodeAnswer],
        is_alone: bool = False,
    ) -> None:
        self.frame = frame
        self.task = task
        self._locate = locate
        self.is_alone = is_alone
        self._node = node
        self._answers = answers
        self._asked = 0
        self._inner = 0

    def ask(self, value: Any, *, name: str | None = None, terms: AnswerTerms = NO_TERMS) -> Any:
        if name is None:
            name, self._asked = str(self._asked), self._asked + 1
        elif not name or name.isdecimal():
            raise GraphError(f"interrupt(name={name!r}): use a text that is not a number")
        answer = self._answers.get(name)
        if answer is None:
            raise self._pause(name, value, None, "", terms)
        try:
            return terms.read(answer.value, is_default=answer.is_default)
        except ValueError as error:  # the type checks more than its schema says: it is asked again
            raise self._pause(name, value, None, str(error), terms) from error

    def recall(self) -> NodeAnswer | None:
        """The answer to the last question that was answered, and what was kept with it."""
        return list(self._answers.values())[-1] if self._answers else None

    def pause(self, value: Any, memo: Any, problem: str) -> NoReturn:
        """Ask what was not asked before, and keep something until the answer comes."""
        raise self._pause(str(len(self._answers)), value, memo, problem)

    def _pause(self, name: str, value: Any, memo: Any, problem: str, terms: AnswerTerms = NO_TERMS) -> Paused:
        _, moment = self._locate()
        known = sha256(f"{moment}\n{name}".encode()).hexdigest()[:16]
        expires = None if terms.timeout is None else self.frame.clock.time() + terms.timeout
        question = GraphInterrupt(
            known,
            value,
            self._node,
            self.frame.scope,
            name,
            terms.schema,
            expires,
            None if expires is None else plain_answer(terms.schema, terms.default),
        )
        return Paused((Asked(question, memo),), problem=problem)

    def next_inner(self) -> tuple[str, str]:
        """The place and the moment of the next graph that this task invokes."""
        self._inner += 1
        place, moment = self._locate()
        return f"{place}/{self._inner}", f"{moment}/{self._inner}"


ALONE: ContextVar[bool] = ContextVar("wesichain_graph_alone", default=False)
"""Whether no other task is on the event loop: whoever is set to run here can let nobody wait."""

IN_PLACE: ContextVar[bool] = ContextVar("wesichain_graph_in_place", default=False)
"""Whether a node that is not async is being called: it may block, also where an event loop runs."""

CURRENT: ContextVar[NodeQuestion | None] = ContextVar("wesichain_graph_task", default=None)


def interrupt(
    value: Any,
    *,
    name: str | None = None,
    expects: Any = None,
    timeout: float | None = None,
    default: Any = None,
) -> Any:
    """Stop here and ask. The run ends in `GraphInterruptedError`; `graph.resume(thread_id, answer)` runs
    the node again from its top, and this call then returns the answer.

    Several questions of one node are told apart by their order, or by a `name`: with one, the answer
    finds its question also in a new version of the program that asks in another order.
    `expects` is the type of the answer, such as a pydantic model: `resume` refuses one that does not fit, and
    this call returns a value of that type. Once `timeout` seconds have passed, a resume without a value goes
    on with `default`; without a timeout the default answers nothing.
    """
    if expects is None and timeout is None:
        return _open_question().ask(value, name=name)
    return _open_question().ask(value, name=name, terms=AnswerTerms(expects, timeout, default))


def pause(value: Any, memo: Any, *, problem: str = "") -> NoReturn:
    """Ask, and keep data for when the node runs again: `recall` gives it back with the answer."""
    _open_question().pause(value, memo, problem)


def recall() -> NodeAnswer | None:
    """The last answer that this task was given, with the data that was kept with its question."""
    task = CURRENT.get()
    return None if task is None else task.recall()


def paused_in(group: BaseExceptionGroup[BaseException]) -> Paused | None:
    """The questions that were asked inside a group of tasks; None where something else went wrong in it."""
    pauses, others = group.split(Paused)
    if pauses is None or others is not None:
        return None
    found = list(_leaves(pauses))
    return Paused(
        tuple(asked for one in found for asked in one.asked),
        problem=next((one.problem for one in found if one.problem), ""),
    )


def _leaves(group: BaseExceptionGroup[Paused]) -> Iterable[Paused]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _open_question() -> NodeQuestion:
    task = CURRENT.get()
    if task is None:
        raise GraphError("interrupt() was called outside a node of a running graph")
    return task
