"""Questions to humans: asked by a node with `interrupt()`, stored in the thread, answered by `resume()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from typing import Any, ClassVar, Final, NoReturn

from wesichain.core.internal import Mutable, Value, field
from wesichain.errors import CheckpointError, ConfigError, GraphError
from wesichain.tools import validate_json

from .state.kinds import is_mapping
from .superstep import NodeTask


class GraphInterrupt(Value):
    """An open question of a node. When the node runs again, the question keeps its id.

    `name` identifies it among the questions of its task: the name given to `interrupt`, or its number.
    `expects` is the JSON schema of an answer. From `expires_at` on, a resume without a value continues with
    `default`. The other fields are internal: `memo` is data of the node, stored until the answer comes;
    `owner` and `task` locate the answer in the thread once the question is stored.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("memo", "owner", "task")

    id: str
    value: Any
    node: str
    scope: str = ""
    name: str = ""
    expects: Mapping[str, Any] | None = None
    expires_at: float | None = None
    default: Any = None
    memo: Any = field(default=None, kw_only=True)
    owner: str = field(default="", kw_only=True)
    task: str = field(default="", kw_only=True)


class Answered(Value):
    """A question with its answer, who gave it (`resume(by=...)`), and when.

    `is_default`: nobody answered in time. It is known until the end of the question's super-step.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("is_default",)

    question: GraphInterrupt
    answer: Any
    by: str | None
    at: float
    is_default: bool = False


# --- asking ----------------------------------------------------------------------------------------


class AnswerTerms:
    """The terms of a question: the type of its answer, a timeout and a default."""

    __slots__ = ("_expects", "default", "schema", "timeout")

    def __init__(self, expects: Any = None, timeout: float | None = None, default: Any = None) -> None:
        if timeout is not None and (isinstance(timeout, bool) or timeout <= 0):
            raise ConfigError(f"interrupt(timeout={timeout!r}): use a number of seconds above 0, or None")
        self._expects = expects
        self.timeout = timeout
        self.default = default
        self.schema: Mapping[str, Any] | None = None if expects is None else _adapter(expects).json_schema()

    def read(self, answer: Any, *, is_default: bool) -> Any:
        """Return the answer as a value of the type, or raise ValueError; a default is not checked."""
        if self._expects is None:
            return answer
        try:
            return _adapter(self._expects).validate_python(answer)
        except ValueError:
            if is_default:
                return answer
            raise


NO_TERMS = AnswerTerms()


def plain_answer(schema: Mapping[str, Any] | None, answer: Any) -> Any:
    """Convert the answer to a question that expects a type to JSON data, if it is a value of the type."""
    if schema is None:
        return answer
    from pydantic_core import to_jsonable_python  # only questions that expect a type need it

    try:
        return to_jsonable_python(answer)
    except ValueError:  # refused when it is checked or stored
        return answer


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # only questions that expect a type need it

    return TypeAdapter(kind)


class Paused(BaseException):  # not an Exception: a node's `except Exception` must not swallow a question
    """Raised in a node that waits for answers. `problem`: why the last answer was refused."""

    def __init__(self, asked: tuple[GraphInterrupt, ...], *, problem: str = "") -> None:
        super().__init__("a node waits for an answer")
        self.asked = asked
        self.problem = problem


class TaskQuestions(Mutable):
    """The questions of one task, and the answers to them by name. `frame` is that of the run."""

    frame: Any
    step: int
    task: NodeTask
    answers: Mapping[str, Answered]
    is_alone: bool
    _asked: int = field(init=False, default=0)
    _inner: int = field(init=False, default=0)

    def ask(self, value: Any, *, name: str | None = None, terms: AnswerTerms = NO_TERMS) -> Any:
        if name is None:
            name, self._asked = str(self._asked), self._asked + 1
        elif not name or name.isdecimal():
            raise GraphError(f"interrupt(name={name!r}): use a text that is not a number")
        answer = self.answers.get(name)
        if answer is None:
            raise self._pause(name, value, None, "", terms)
        try:
            return terms.read(answer.answer, is_default=answer.is_default)
        except ValueError as error:  # the type checks more than its schema: ask again
            raise self._pause(name, value, None, str(error), terms) from error

    def recall(self) -> Answered | None:
        """Return the last answer, with its question."""
        return list(self.answers.values())[-1] if self.answers else None

    def pause(self, value: Any, memo: Any, problem: str) -> NoReturn:
        """Ask, and store a memo until the answer comes. After a `problem`, ask the last question again."""
        name = list(self.answers)[-1] if problem and self.answers else str(len(self.answers))
        raise self._pause(name, value, memo, problem)

    def _pause(self, name: str, value: Any, memo: Any, problem: str, terms: AnswerTerms = NO_TERMS) -> Paused:
        question_id = sha256(f"{self._moment}\n{name}".encode()).hexdigest()[:16]
        expires = None if terms.timeout is None else self.frame.clock.time() + terms.timeout
        question = GraphInterrupt(
            question_id,
            value,
            self.task.node,
            self.frame.scope,
            name,
            terms.schema,
            expires,
            None if expires is None else plain_answer(terms.schema, terms.default),
            memo=memo,
        )
        return Paused((question,), problem=problem)

    def next_inner(self) -> tuple[str, str]:
        """Return the owner and the moment of the next graph that this task invokes."""
        self._inner += 1
        journal = self.frame.journal
        place = "" if journal is None else journal.place(self.task)
        return f"{place}/{self._inner}", f"{self._moment}/{self._inner}"

    @property
    def _moment(self) -> str:
        """The permanent name of the task; all branches from its super-step share it."""
        frame, task = self.frame, self.task
        if frame.journal is None:
            return f"{frame.scope}/{self.step}/{task.id}"
        moment: str = frame.journal.moment(task, self.step)
        return moment


CURRENT: ContextVar[TaskQuestions | None] = ContextVar("wesichain_graph_task", default=None)


def interrupt(
    value: Any,
    *,
    name: str | None = None,
    expects: Any = None,
    timeout: float | None = None,
    default: Any = None,
) -> Any:
    """Stop the node and ask a question. The run ends with `GraphInterruptedError`;
    `graph.resume(thread_id, answer)` runs the node again from its start, and this call returns the answer.

    Several questions of one node are matched with their answers by their order, or by `name`, which also
    works if a new version of the program asks them in another order.
    `expects` is the type of the answer, such as a pydantic model: `resume` refuses an answer that does not
    fit, and this call returns a value of that type. Once `timeout` seconds have passed, a resume without a
    value continues with `default`; a default without a timeout has no effect.
    """
    if expects is None and timeout is None:
        return _open_question().ask(value, name=name)
    return _open_question().ask(value, name=name, terms=AnswerTerms(expects, timeout, default))


def pause(value: Any, memo: Any, *, problem: str = "") -> NoReturn:
    """Ask, and store a memo for the next run of the node: `recall` returns it with the answer."""
    _open_question().pause(value, memo, problem)


def recall() -> Answered | None:
    """Return the last answer to this task; its question has the memo."""
    task = CURRENT.get()
    return None if task is None else task.recall()


def paused_in(group: BaseExceptionGroup[BaseException]) -> Paused | None:
    """Return the questions of an exception group; None if it contains other exceptions."""
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


def _open_question() -> TaskQuestions:
    task = CURRENT.get()
    if task is None:
        raise GraphError(
            "interrupt() was called outside a node of a running graph; call it in the function of a node"
        )
    return task


# --- in the thread ---------------------------------------------------------------------------------


def quoted(task_id: str) -> str:
    """Escape a task id as part of an owner's path, which repeats checkpoint/task/call."""
    return task_id.replace("%", "%25").replace("/", "%2F")


def unquoted(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def tasks_of(owner: str) -> list[str]:
    return [unquoted(part) for part in owner.split("/")[1::3]]


# --- answering -------------------------------------------------------------------------------------


class NoAnswer:
    """The default value of `resume`: no answer. None is an answer like any other."""

    __slots__ = ()


NO_ANSWER: Final = NoAnswer()


def match_answers(
    thread_id: str, value: Any, by_id: Mapping[str, GraphInterrupt], *, by: str | None, now: float
) -> list[Answered]:
    """Match answers with questions. Without an answer, expired questions get their defaults.

    Raises if there is no question for an answer, or the answer does not fit what its question expects.
    """
    if value is NO_ANSWER or (value is None and not by_id):
        expired = [one for one in by_id.values() if one.expires_at is not None and now >= one.expires_at]
        return [Answered(one, one.default, None, now, is_default=True) for one in expired]
    if not by_id:
        raise CheckpointError(
            f"thread {thread_id!r}: no question waits for an answer; resume it without a value, or go back "
            f"to an earlier question with graph.resume({thread_id!r}, checkpoint_id=...) and answer it then"
        )
    if is_mapping(value) and value and value.keys() <= by_id.keys():
        found = [(by_id[question_id], answer) for question_id, answer in value.items()]
    elif len(by_id) > 1:
        listed = ", ".join(f"{one.id} ({one.node!r})" for one in by_id.values())
        raise GraphError(f"{len(by_id)} questions wait; answer with a mapping of their ids: {listed}")
    else:
        found = [(one, value) for one in by_id.values()]
    answers = [Answered(one, plain_answer(one.expects, answer), by, now) for one, answer in found]
    for given in answers:
        check_answer(given.question.expects, given.answer, given.question.node)
    return answers


def check_answer(schema: Mapping[str, Any] | None, answer: Any, node: str) -> None:
    """Raise if an answer does not fit the schema of its question; nothing has been written yet."""
    if schema is not None and (faults := validate_json(schema, answer)):
        what = "; ".join(faults[:3])
        raise GraphError(f"the answer to {node!r} does not fit: {what}; no answer was stored", node=node)
