"""Notes: what is pending on a checkpoint, as it is stored, by the names of the tasks.

{"task": id, "writes": [...], "goto": [...]}       what a finished task returned
{"task": id, "error": text}                        how it failed
{"task": id, "node": name, "questions": [...]}     what it asks, in place of what it asked before
{"task": id, "answer": [name, value, memo]}        what one of its questions was answered with
{"task": id, "did": [name, data]}                  what it has done already, and must not do again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, dataclass
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.context import Answer, Interrupt
from wesichain.graph.state import Result

from .entries import Entry
from .plain import ANYTHING, text_of
from .reading import parsed


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that waits, and where: its answer is put there."""

    question: Interrupt
    task: str
    owner: str
    memo: Any = None

    @property
    def way(self) -> list[str]:
        """The tasks on the way down to it, itself last."""
        return [*_tasks_of(self.owner), self.task]


class Pending:
    """What is known of the tasks of the super-step after a checkpoint, by their ids."""

    __slots__ = ("answers", "asked", "done", "errors", "results")

    def __init__(self) -> None:
        self.done: dict[str, dict[str, JsonValue]] = {}
        self.results: dict[str, Result] = {}
        self.answers: dict[str, dict[str, Answer]] = {}
        self.asked: dict[str, list[Asked]] = {}
        self.errors: dict[str, str] = {}

    def copy(self) -> Pending:
        """The same, to be changed by a run."""
        mine = Pending()
        mine.results, mine.errors = dict(self.results), dict(self.errors)
        mine.answers = {task: dict(given) for task, given in self.answers.items() if given}
        mine.asked, mine.done = dict(self.asked), dict(self.done)
        return mine


class Notes:
    """The notes of one owner, read; the results are still as they were stored."""

    __slots__ = ("_old_ids", "_owner", "last_event", "pending", "results")

    def __init__(self, owner: str, entries: Iterable[Entry], old_ids: Mapping[str, str]) -> None:
        """`old_ids`: what tasks are called now that were called otherwise when this was written."""
        self._owner = owner
        self._old_ids = old_ids
        self.pending = Pending()
        self.results: dict[str, Mapping[str, Any]] = {}
        self.last_event = 0
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Read one more."""
        body = parsed(entry)
        self.last_event = max(self.last_event, body.get("event", 0))
        self._take(self._owner, self._old_ids.get(body["task"], body["task"]), body)

    def _take(self, owner: str, task: str, body: Mapping[str, Any]) -> None:
        pending = self.pending
        if "did" in body:
            name, data = body["did"]
            pending.done.setdefault(task, {})[name] = data
            return
        answers = pending.answers.setdefault(task, {})
        if "answer" in body:
            name, value, memo = body["answer"]
            answers[name] = Answer(ANYTHING.decode(value), ANYTHING.decode(memo))
            left = [one for one in pending.asked.pop(task, ()) if one.question.name != name]
            if left:
                pending.asked[task] = left
            return
        pending.asked.pop(task, None)
        pending.errors.pop(task, None)
        if "error" in body:
            pending.errors[task] = body["error"]
        elif "questions" in body:
            pending.asked[task] = [_asked(owner, body, task, row) for row in body["questions"]]
        elif "asked" in body:  # format 1
            known, value, memo = body["asked"]
            pending.asked[task] = [_asked(owner, body, task, (known, str(len(answers)), value, memo))]
        elif "answers" in body:  # format 1
            rows = enumerate(body["answers"])
            pending.answers[task] = {
                str(number): Answer(ANYTHING.decode(value), ANYTHING.decode(memo))
                for number, (value, memo) in rows
            }
        else:
            self.results[task] = body


def write_questions(task: str, node: str, asked: Sequence[tuple[Interrupt, Any]]) -> dict[str, Any]:
    """The questions of a task, each with what is kept for its answer."""
    what = f"node {node!r}: what it asked"
    rows = [
        [question.id, question.name, *[_kept(data, what, node) for data in (question.value, memo)]]
        for question, memo in asked
    ]
    return {"task": task, "node": node, "questions": rows}


def write_answer(asked: Asked, value: Any) -> dict[str, Any]:
    question = asked.question
    answer = _kept(value, f"the answer to {question.node!r}", question.node)
    return {"task": asked.task, "answer": [question.name, answer, ANYTHING.encode(asked.memo)]}


def _asked(owner: str, body: Mapping[str, Any], task: str, row: Sequence[Any]) -> Asked:
    known, name, value, memo = row
    question = Interrupt(
        str(known), ANYTHING.decode(value), body["node"], "/".join(_tasks_of(owner)), str(name)
    )
    return Asked(question, task, owner, ANYTHING.decode(memo))


def _kept(value: Any, what: str, node: str) -> Any:
    """A question or an answer, encoded."""
    try:
        data = ANYTHING.encode(value)
        text_of(data)
    except (CodecError, RecursionError) as error:
        raise CheckpointError(f"{what} cannot be kept in the checkpoint: {error}", node=node) from error
    return data


def quoted(task_id: str) -> str:
    """A task's id as one part of an owner's path, which is checkpoint/task/call, again and again."""
    return task_id.replace("%", "%25").replace("/", "%2F")


def _tasks_of(owner: str) -> list[str]:
    return [part.replace("%2F", "/").replace("%25", "%") for part in owner.split("/")[1::3]]
