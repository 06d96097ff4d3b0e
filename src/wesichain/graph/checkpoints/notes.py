"""Notes: what is pending on a checkpoint, as it is stored, by the names of the tasks.

{"task": id, "writes": [...], "goto": [...]}       what a finished task returned
{"task": id, "error": text}                        how it failed
{"task": id, "node": name, "questions": [...]}     what it asks, in place of what it asked before
{"task": id, "answer": [name, value, memo]}        what one of its questions was answered with, "by" whom;
                                                   "default": nobody answered in time
{"task": id, "did": [name, data]}                  what it has done already, and must not do again
{"event": number}                                  the last event of a run that stopped here
{"spent": data}                                    what its agents have spent
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import Spent, dataclass
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.context import Answered, Asked, GraphInterrupt, NodeAnswer, tasks_of
from wesichain.graph.state import NodeResult, Write
from wesichain.graph.superstep import Frontier, NodeTask, Position
from wesichain.store import Entry

from .log_reading import parsed
from .plain import ANYTHING, text_of


class Pending:
    """The tasks of the super-step after a checkpoint, as far as they are known, by their ids.

    `waiting`: the questions of tasks that are not run before one of theirs is answered; `moved`: the tasks
    that one was answered of now.
    """

    __slots__ = ("answers", "done", "errors", "moved", "refusal", "results", "waiting")

    def __init__(self) -> None:
        self.done: dict[str, dict[str, JsonValue]] = {}
        self.results: dict[str, NodeResult] = {}
        self.answers: dict[str, Mapping[str, NodeAnswer]] = {}
        self.errors: dict[str, str] = {}
        self.waiting: Mapping[str, tuple[Asked, ...]] = {}
        self.moved: frozenset[str] = frozenset()
        self.refusal: CheckpointError | None = None  # why this program cannot read one of the results

    def todo(self, frontier: Frontier) -> Sequence[NodeTask]:
        """The tasks that are to be run. Where all others are known, the answered ones are not looked for."""
        if not self.results and not self.waiting:
            return frontier.tasks
        if len(self.moved) == 1 and len(self.results) + len(self.waiting) + 1 == len(frontier.tasks):
            return [frontier.by_id[task] for task in self.moved if task in frontier.by_id]
        return [
            task for task in frontier.tasks if task.id not in self.results and task.id not in self.waiting
        ]


@dataclass(frozen=True, slots=True)
class OuterWrites:
    """The writes of an inner graph so far, for the graph outside: the names of the keys that it wrote, and
    its writes to those that have a reducer there, in order.
    """

    keys: frozenset[str] = frozenset()
    writes: tuple[Write, ...] = ()

    def __or__(self, more: OuterWrites) -> OuterWrites:
        return OuterWrites(self.keys | more.keys, (*self.writes, *more.writes))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint, read. What it says comes from the log, under the names that nodes have in this program.

    `refusal`: why this program cannot go on with its values; `stored` are those as plain data then.
    `renamed`: the ids of tasks that had others when it was written, by those.
    """

    checkpoint: int
    parent: int | None
    position: Position
    source: str
    run_id: str
    at: float
    last_event: int
    visits: Mapping[str, int]
    pending: Pending
    outer: OuterWrites
    refusal: CheckpointError | None = None
    stored: Mapping[str, Any] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    answered: tuple[Answered, ...] = ()
    counted_from: int = 0  # the step that `max_steps` counts from
    spent: Spent | None = None


class ThreadQuestions:
    """The questions that wait on a checkpoint, at any depth: by their ids, and by the outermost task that
    each waits in. Kept up with the log, so that an answer costs the same however many wait.
    """

    __slots__ = ("_depth", "_is_in_order", "by_id", "by_task")

    def __init__(self, asked: Iterable[Asked] = (), *, depth: int = 0) -> None:
        """`depth`: of the graph whose tasks `by_task` names; 0 is the outermost."""
        self._depth = depth
        self.by_id: dict[str, Asked] = {}
        self.by_task: dict[str, tuple[Asked, ...]] = {}
        self._is_in_order = True
        self.add(asked)

    def put_in_order(self, frontier: Frontier) -> None:
        """Sort them as their tasks were planned; tasks that ran side by side asked as it happened."""
        if not self._is_in_order:
            order = {task: index for index, task in enumerate(frontier.by_id)}
            tasks = sorted(self.by_task, key=lambda task: order.get(task, 0))
            self.by_task = {task: self.by_task[task] for task in tasks}
            self.by_id = {one.question.id: one for asked in self.by_task.values() for one in asked}
            self._is_in_order = True

    def add(self, asked: Iterable[Asked]) -> None:
        for one in asked:
            self._is_in_order = False
            top = one.way[self._depth]
            self.by_id[one.question.id] = one
            self.by_task[top] = (*self.by_task.get(top, ()), one)

    def drop(self, asked: Iterable[Asked]) -> None:
        for one in asked:
            top = one.way[self._depth]
            self.by_id.pop(one.question.id, None)
            left = tuple(other for other in self.by_task.get(top, ()) if other is not one)
            if left:
                self.by_task[top] = left
            else:
                self.by_task.pop(top, None)


class Notes:
    """The notes of one owner, read; `unread` are the results that are still as they were stored."""

    __slots__ = ("_old_ids", "_owner", "answered", "asked", "last_event", "pending", "spent", "unread")

    def __init__(self, owner: str, entries: Iterable[Entry], old_ids: Mapping[str, str]) -> None:
        """`old_ids`: what tasks are called now that were called otherwise when this was written."""
        self._owner = owner
        self._old_ids = old_ids
        self.pending = Pending()
        self.asked: dict[str, tuple[Asked, ...]] = {}
        self.answered: dict[str, Answered] = {}  # by the ids of the questions, in the order of the answers
        self.unread: dict[str, Mapping[str, Any]] = {}
        self.last_event = 0
        self.spent: Any = None
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry, questions: ThreadQuestions | None = None) -> None:
        """Read one more, and tell the questions that wait what has become of them."""
        body = parsed(entry)
        self.last_event = max(self.last_event, body.get("event", 0))
        self.spent = body.get("spent", self.spent)
        if "task" not in body and body.keys() & {"event", "spent"}:
            return
        task = self._old_ids.get(body["task"], body["task"])
        before = self.asked.get(task, ())
        self._take(self._owner, task, body, entry.at)
        after = self.asked.get(task, ())
        if questions is not None and before is not after:
            questions.drop(before)
            questions.add(after)

    def _take(self, owner: str, task: str, body: Mapping[str, Any], at: float) -> None:
        pending = self.pending
        if "did" in body:
            name, data = body["did"]
            pending.done.setdefault(task, {})[name] = data
            return
        answers = pending.answers.get(task, {})
        if "answer" in body:
            name, value, memo = body["answer"]
            answer = NodeAnswer(ANYTHING.decode(value), ANYTHING.decode(memo), body.get("default", False))
            pending.answers[task] = {**answers, name: answer}
            for one in self.asked.get(task, ()):
                if one.question.name == name:
                    self.answered[one.question.id] = Answered(one.question, answer.value, body.get("by"), at)
            left = tuple(one for one in self.asked.pop(task, ()) if one.question.name != name)
            if left:
                self.asked[task] = left
            return
        self.asked.pop(task, None)
        pending.errors.pop(task, None)
        if "error" in body:
            pending.errors[task] = body["error"]
        elif "questions" in body:
            self.asked[task] = tuple(_asked(owner, body, task, row) for row in body["questions"])
            again = {one.question.name for one in self.asked[task]} & answers.keys()
            if again:  # the answer was none: the question is asked again
                pending.answers[task] = {name: item for name, item in answers.items() if name not in again}
                for one in self.asked[task]:
                    self.answered.pop(one.question.id, None)
        elif "asked" in body:  # format 1
            known, value, memo = body["asked"]
            self.asked[task] = (_asked(owner, body, task, (known, str(len(answers)), value, memo)),)
        elif "answers" in body:  # format 1
            rows = enumerate(body["answers"])
            pending.answers[task] = {
                str(number): NodeAnswer(ANYTHING.decode(value), ANYTHING.decode(memo))
                for number, (value, memo) in rows
            }
        else:
            self.unread[task] = body


def write_questions(task: str, node: str, asked: Sequence[Asked]) -> dict[str, Any]:
    """The questions of a task, each with what is kept for its answer."""
    what = f"node {node!r}: what it asked"
    rows = [
        [
            one.question.id,
            one.question.name,
            *[_kept(data, what, node) for data in (one.question.value, one.memo)],
            *_written_terms(one.question, what),
        ]
        for one in asked
    ]
    return {"task": task, "node": node, "questions": rows}


def write_answer(given: NodeAnswer, asked: Asked) -> dict[str, Any]:
    question = asked.question
    answer = _kept(given.value, f"the answer to {question.node!r}", question.node)
    body: dict[str, Any] = {
        "task": asked.task,
        "answer": [question.name, answer, ANYTHING.encode(asked.memo)],
    }
    if given.by is not None:
        body["by"] = given.by
    if given.is_default:
        body["default"] = True
    return body


def _written_terms(question: GraphInterrupt, what: str) -> list[Any]:
    """The rest of a question's row: what its answer has to be, and what holds without one."""
    if question.expects is None and question.expires_at is None:
        return []
    default = _kept(question.default, f"{what}, the default", question.node)
    return [{"expects": question.expects, "expires_at": question.expires_at, "default": default}]


def _asked(owner: str, body: Mapping[str, Any], task: str, row: Sequence[Any]) -> Asked:
    known, name, value, memo, *terms = row
    more: dict[str, Any] = dict(terms[0]) if terms else {}
    if more:
        more["default"] = ANYTHING.decode(more["default"])
    scope = "/".join(tasks_of(owner))
    question = GraphInterrupt(str(known), ANYTHING.decode(value), body["node"], scope, str(name), **more)
    return Asked(question, ANYTHING.decode(memo), owner, task)


def write_answered(answered: Answered) -> list[Any]:
    """A question and its answer, as the checkpoint has them that the answer led to."""
    one = answered.question
    data = [ANYTHING.encode(item) for item in (one.value, answered.answer)]
    return [one.id, one.node, one.scope, one.name, *data, answered.by, answered.at]


def read_answered(row: Sequence[Any]) -> Answered:
    known, node, scope, name, value, answer, by, at = row
    question = GraphInterrupt(known, ANYTHING.decode(value), node, scope, name)
    return Answered(question, ANYTHING.decode(answer), by, at)


def _kept(value: Any, what: str, node: str) -> Any:
    """A question or an answer, encoded."""
    try:
        data = ANYTHING.encode(value)
        text_of(data)
    except (CodecError, RecursionError) as error:
        raise CheckpointError(f"{what} cannot be kept in the checkpoint: {error}", node=node) from error
    return data
