"""The fold of a thread's log: checkpoints into stored values, notes into what is pending on a checkpoint.

Nothing here does I/O, or depends on the nodes of this program. A note is one of these:

{"task": id, "writes": [...], "goto": [...]}       the result of a finished task
{"task": id, "error": text}                        the error of a failed task
{"task": id, "node": name, "questions": [...]}     its open questions, which replace earlier ones
{"task": id, "answer": [name, value, memo]}        the answer to one of its questions; "by": who gave it;
                                                   "default": true if nobody answered in time
{"task": id, "did": [name, data]}                  something it has done and must not repeat
{"event": number}                                  the number of the last event of a stopped run
{"spent": data}                                    the spending of the thread's agents
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from wesichain.core import JsonValue
from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.questions import Answered, GraphInterrupt, tasks_of
from wesichain.graph.state.updates import NodeResult
from wesichain.graph.superstep import Frontier, NodeTask
from wesichain.store import ThreadEntry, is_settled

from .coding import ANYTHING, text_of
from .deltas import undelta
from .parts import together

FORMAT = 3
_NO_VISITS: Mapping[str, int] = {}
ONCE = '"once":'


# --- checkpoints -----------------------------------------------------------------------------------


class CheckpointFold:
    """Folds checkpoints, one after the other, into the values stored at the last one."""

    def __init__(self, thread_id: str, chain: Iterable[tuple[ThreadEntry, dict[str, Any]]] = ()) -> None:
        self._thread_id = thread_id
        self.entry = ThreadEntry(0, "", 0, 0.0, "")
        self.body: Mapping[str, Any] = {}
        self.stored: dict[str, Any] = {}
        self.visits: Counter[str] = Counter()
        self.run_id = ""
        self.last_event = 0
        self.format = FORMAT
        self.version = 1  # of the program's state
        self.answered: list[Any] = []
        self.counted_from = 0
        self.spent: Any = None
        self.wrote: set[str] = set()
        self.out: list[Any] = []
        for entry, body in chain:
            self.take(entry, body)

    @property
    def base(self) -> int:
        return self.entry.base

    @property
    def moment(self) -> int:
        """The number of this checkpoint, or of the one that it branched from."""
        moment: int = self.body.get("moment", self.entry.seq)
        return moment

    def take_next(self, entry: ThreadEntry) -> bool:
        """Fold this checkpoint if it follows the last one; return whether it does."""
        body = parsed(entry)
        if body.get("parent") != self.entry.seq or entry.base == entry.seq:
            return False
        self.take(entry, body)
        return True

    def take(self, entry: ThreadEntry, body: Mapping[str, Any]) -> None:
        """Fold one more checkpoint; a base replaces everything before it."""
        self.entry, self.body = entry, body
        try:
            if entry.seq == entry.base:
                self.format, self.version = body.get("format", 0), body.get("version", 1)
                self.answered, self.wrote, self.out = [], set[str](), []
                self.stored.clear()
                self.visits.clear()
            self.answered += body.get("answered", ())
            self.counted_from = body.get("from", 0)
            self.spent = body.get("spent", self.spent)
            for name, change in body["values"].items():
                self.stored[name] = undelta(self.stored.get(name), change)
            for name in body.get("gone", ()):
                self.stored.pop(name, None)
            if body["source"] == "input":  # a new run
                self.visits.clear()
                self.last_event = 0
            for node, count in body.get("ran", _NO_VISITS).items():
                self.visits[node] += count
            self.run_id = body.get("run", self.run_id)
            self.last_event = max(self.last_event, body.get("event", 0))
            if self.format < 3 and body["source"] == "loop":
                self._take_old_writes(body)
            else:
                self.wrote.update(body.get("wrote", ()))
                self.out += body.get("out", ())
        except (CodecError, LookupError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"checkpoint {entry.seq} of {self._thread_id!r} is damaged: {error!r}"
            ) from error

    def _take_old_writes(self, body: Mapping[str, Any]) -> None:
        """Derive the writes of an inner graph from its changes: format 2 did not store writes to lists, sets
        and mappings, and format 1 stored none.
        """
        self.wrote.update(body.get("wrote", body["values"]))
        stored = body.get("out", [])
        self.out += stored
        for name, change in body["values"].items():
            if any(name == write[0] for write in stored):
                continue
            if "+" in change:
                self.out.append([name, "typed", change["+"][1]])
            elif "~" in change and "$set" not in change["~"]:
                self.out.append([name, "typed", {key: self.stored[name][key] for key in change["~"]}])
            else:
                how = "set" if self.format < 2 else "typed"
                self.out.append([name, how, self.stored[name]])


def chain(entries: Mapping[int, ThreadEntry], seq: int) -> list[tuple[ThreadEntry, dict[str, Any]]]:
    """Return a checkpoint and its ancestors back to its base, oldest first."""
    chain: list[tuple[ThreadEntry, dict[str, Any]]] = []
    base = entries[seq].base
    number: int | None = seq
    while number is not None and number in entries:
        body = parsed(entries[number])
        chain.append((entries[number], body))
        if number == base:
            break
        number = body.get("parent")
    if chain[-1][0].seq != base:
        raise CheckpointError(f"checkpoint {seq} cannot be read: its base ({base}) is missing")
    if (version := chain[-1][1].get("format", 0)) > FORMAT:
        raise CheckpointError(
            f"checkpoint {seq} was written in the format {version}; this version reads up to {FORMAT}"
        )
    chain.reverse()
    return chain


def parsed(entry: ThreadEntry) -> dict[str, Any]:
    try:
        body = parse_json(entry.body)
    except CodecError as error:
        raise CheckpointError(f"entry {entry.seq} of the thread is damaged: {error}") from error
    if not is_object(body):
        raise CheckpointError(f"entry {entry.seq} of the thread is damaged: it is not an object")
    return together(entry, body)


@contextmanager
def undamaged(thread_id: str) -> Generator[None]:
    """Convert the errors of reading entries that a journal did not write to `CheckpointError`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"thread {thread_id!r} is damaged: {error!r}") from error


def rebased(entries: Sequence[ThreadEntry], *, at: float) -> list[ThreadEntry]:
    """Return the newest checkpoint of a log as a base, with its pending entries.

    It has the same moment, so that questions keep their ids.
    """
    checkpoints = {entry.seq: entry for entry in entries if not entry.owner}
    newest = max(checkpoints)
    fold = CheckpointFold("", chain(checkpoints, newest))
    body = {name: item for name, item in fold.body.items() if name not in ("parent", "gone", "ran")}
    body |= {
        "run": fold.run_id,
        "format": FORMAT,
        "values": {k: {"=": v} for k, v in fold.stored.items()},
    }
    if fold.version > 1:
        body["version"] = fold.version
    if fold.visits:
        body["ran"] = dict(fold.visits)
    if fold.spent:
        body["spent"] = fold.spent
    if fold.answered:
        body["answered"] = fold.answered
    if once := once_in(entries):
        body["once"] = once
    first = entries[-1].seq + 1
    body["moment"] = fold.moment
    pending = [entry for entry in entries if is_settled(entry.owner, str(newest))]
    return [ThreadEntry(first, "", first, at, dump_json(body)), *moved(pending, newest, first)]


def once_in(entries: Iterable[ThreadEntry]) -> dict[str, Any]:
    """Return the records of calls with `effect="once"` in these entries by id; the last one counts."""
    found: dict[str, Any] = {}
    for entry in entries:
        if ONCE in entry.body:
            body = parsed(entry)
            if "did" in body and isinstance(body.get("once"), str):
                found[body["once"]] = body["did"][1]
            elif is_object(once := body.get("once")):
                found |= once
    return found


def moved(entries: Sequence[ThreadEntry], head: int, to: int) -> list[ThreadEntry]:
    """Return the notes pending on one checkpoint as notes on another, numbered from there on."""
    numbers = {head: to} | {entry.seq: number for number, entry in enumerate(entries, start=to + 1)}
    return [_renumbered(entry, numbers) for entry in entries]


def _renumbered(entry: ThreadEntry, numbers: Mapping[int, int]) -> ThreadEntry:
    """Return an entry with new numbers in its owner, parent and base."""
    path = entry.owner.split("/")
    path[::3] = [str(numbers.get(int(number), number)) for number in path[::3]]
    body = parsed(entry)
    if "parent" in body:
        body["parent"] = numbers[body["parent"]]
    base = numbers.get(entry.base, numbers[entry.seq])
    return ThreadEntry(numbers[entry.seq], "/".join(path), base, entry.at, dump_json(body))


# --- notes -----------------------------------------------------------------------------------------


class OpenQuestions(NamedTuple):
    """The open questions on a checkpoint: by the task of its graph that each belongs to, and by id."""

    by_task: Mapping[str, tuple[GraphInterrupt, ...]]
    by_id: Mapping[str, GraphInterrupt]

    @classmethod
    def of(cls, by_task: Mapping[str, tuple[GraphInterrupt, ...]]) -> OpenQuestions:
        return cls(by_task, {one.id: one for asked in by_task.values() for one in asked})


class PendingEntries:
    """Folds the notes on a checkpoint into what is known of the tasks of the next super-step, by task id.

    `asked`, `by_id`: open questions of these tasks themselves. `waiting`: all open questions of tasks that do
    not run before one of them is answered, including those of inner graphs. `just_answered`: the tasks of
    questions that this resume has answered. `unread`: results as stored.
    """

    def __init__(
        self, owner: str = "", entries: Iterable[ThreadEntry] = (), old_ids: Mapping[str, str] | None = None
    ) -> None:
        """`old_ids` maps the ids of renamed tasks to their new ids."""
        self._owner = owner
        self._old_ids: Mapping[str, str] = old_ids or {}
        self.done: dict[str, dict[str, JsonValue]] = {}
        self.unread: dict[str, Mapping[str, Any]] = {}
        self.results: dict[str, NodeResult] = {}
        self.asked: dict[str, tuple[GraphInterrupt, ...]] = {}
        self.by_id: dict[str, GraphInterrupt] = {}
        self.answers: dict[str, Mapping[str, Answered]] = {}
        self.errors: dict[str, str] = {}
        self.last_event = 0
        self.spent: Any = None
        self.waiting: Mapping[str, tuple[GraphInterrupt, ...]] = {}
        self.just_answered: frozenset[str] = frozenset()
        self.refusal: CheckpointError | None = None  # the error of a result that this program cannot read
        for entry in entries:
            self.take(entry)

    def todo(self, frontier: Frontier) -> Sequence[NodeTask]:
        """Return the tasks to run. If only the one just answered is left, the others are not searched."""
        if not self.results and not self.waiting:
            return frontier.tasks
        if len(self.just_answered) == 1 and len(self.results) + len(self.waiting) + 1 == len(frontier.tasks):
            return [frontier.by_id[task] for task in self.just_answered if task in frontier.by_id]
        return [
            task for task in frontier.tasks if task.id not in self.results and task.id not in self.waiting
        ]

    def take(self, entry: ThreadEntry) -> None:
        """Fold one more note."""
        body = parsed(entry)
        self.last_event = max(self.last_event, body.get("event", 0))
        self.spent = body.get("spent", self.spent)
        if "task" not in body and body.keys() & {"event", "spent"}:
            return
        task: str = self._old_ids.get(body["task"], body["task"])
        if "did" in body:
            name, data = body["did"]
            self.done.setdefault(task, {})[name] = data
        elif "answer" in body:
            self._take_answer(task, body, entry.at)
        else:
            self._take_end(task, body)

    def _take_answer(self, task: str, body: Mapping[str, Any], at: float) -> None:
        name, value, memo = body["answer"]
        asked = self.asked.pop(task, ())
        question = next((one for one in asked if one.name == name), None)
        if question is None:
            question = GraphInterrupt("", None, "", name=name, memo=ANYTHING.decode(memo))
        answer = Answered(question, ANYTHING.decode(value), body.get("by"), at, body.get("default", False))
        self.answers[task] = {**self.answers.get(task, {}), name: answer}
        self.by_id.pop(question.id, None)
        if left := tuple(one for one in asked if one is not question):
            self.asked[task] = left

    def _take_end(self, task: str, body: Mapping[str, Any]) -> None:
        """Fold the result, error or questions of a task, which replace earlier ones."""
        for one in self.asked.pop(task, ()):
            del self.by_id[one.id]
        self.errors.pop(task, None)
        answers = self.answers.get(task, {})
        if "error" in body:
            self.errors[task] = body["error"]
        elif "questions" in body:
            asked = self.asked[task] = tuple(
                _question(self._owner, body, task, row) for row in body["questions"]
            )
            again = {one.name for one in asked} & answers.keys()
            if again:  # the answer was refused, and the question is asked again
                self.answers[task] = {name: item for name, item in answers.items() if name not in again}
        elif "asked" in body:  # format 1
            known, value, memo = body["asked"]
            self.asked[task] = (_question(self._owner, body, task, (known, str(len(answers)), value, memo)),)
        elif "answers" in body:  # format 1
            self.answers[task] = {
                str(number): Answered(
                    GraphInterrupt("", None, "", memo=ANYTHING.decode(memo)),
                    ANYTHING.decode(value),
                    None,
                    0.0,
                )
                for number, (value, memo) in enumerate(body["answers"])
            }
        else:
            self.unread[task] = body
        self.by_id |= {one.id: one for one in self.asked.get(task, ())}

    def leave_waiting(
        self, waiting: Mapping[str, tuple[GraphInterrupt, ...]], answers: Sequence[Answered]
    ) -> None:
        """Do not run tasks with open questions, except those with a question that has just been answered.

        `waiting`: the open questions, by their outermost task.
        """
        self.just_answered = frozenset(
            (*tasks_of(one.question.owner), one.question.task)[0] for one in answers
        )
        self.waiting = left = dict(waiting)
        for task in self.just_answered:
            left.pop(task, None)

    def answered(self) -> list[Answered]:
        """Return the answered questions; old formats did not store all of them."""
        return [one for named in self.answers.values() for one in named.values() if one.question.id]


def _question(owner: str, body: Mapping[str, Any], task: str, row: Sequence[Any]) -> GraphInterrupt:
    known, name, value, memo, *terms = row
    more: dict[str, Any] = dict(terms[0]) if terms else {}
    if more:
        more["default"] = ANYTHING.decode(more["default"])
    more |= {"memo": ANYTHING.decode(memo), "owner": owner, "task": task}
    scope = "/".join(tasks_of(owner))
    return GraphInterrupt(str(known), ANYTHING.decode(value), body["node"], scope, str(name), **more)


def write_questions(task: str, node: str, asked: Sequence[GraphInterrupt]) -> dict[str, Any]:
    """Encode the questions of a task, each with its memo."""
    what = f"node {node!r}: the question"
    rows = [
        [
            one.id,
            one.name,
            *[_kept(data, what, node) for data in (one.value, one.memo)],
            *_written_terms(one, what),
        ]
        for one in asked
    ]
    return {"task": task, "node": node, "questions": rows}


def write_answer(given: Answered) -> dict[str, Any]:
    question = given.question
    answer = _kept(given.answer, f"the answer to {question.node!r}", question.node)
    body: dict[str, Any] = {
        "task": question.task,
        "answer": [question.name, answer, ANYTHING.encode(question.memo)],
    }
    if given.by is not None:
        body["by"] = given.by
    if given.is_default:
        body["default"] = True
    return body


def _written_terms(question: GraphInterrupt, what: str) -> list[Any]:
    """Encode the terms of a question, if it has any: its schema, expiry and default."""
    if question.expects is None and question.expires_at is None:
        return []
    default = _kept(question.default, f"{what}, the default", question.node)
    return [{"expects": question.expects, "expires_at": question.expires_at, "default": default}]


def write_answered(answered: Answered) -> list[Any]:
    """Encode an answered question for the next checkpoint."""
    one = answered.question
    data = [ANYTHING.encode(item) for item in (one.value, answered.answer)]
    return [one.id, one.node, one.scope, one.name, *data, answered.by, answered.at]


def read_answered(row: Sequence[Any]) -> Answered:
    known, node, scope, name, value, answer, by, at = row
    question = GraphInterrupt(known, ANYTHING.decode(value), node, scope, name)
    return Answered(question, ANYTHING.decode(answer), by, at)


def _kept(value: Any, what: str, node: str) -> Any:
    """Encode a question or an answer."""
    try:
        data = ANYTHING.encode(value)
        text_of(data)
    except (CodecError, RecursionError) as error:
        raise CheckpointError(f"{what} cannot be stored in the checkpoint: {error}", node=node) from error
    return data
