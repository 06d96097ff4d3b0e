"""The journal: what one run reads from a thread's log, and adds to it.

A checkpoint holds what its super-step changed and what runs next. Until the next one, notes are
pending on it: the results of siblings that have finished, the questions that nodes asked, the answers
that they were given, the errors that they met. The next checkpoint settles them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wesichain.core import Clock, dataclass, dump_json
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.context import Interrupt
from wesichain.graph.definition import Definition
from wesichain.graph.state import Result
from wesichain.graph.superstep import Folded, Position, Task

from .entries import Entry
from .plain import ANYTHING, text_of
from .reading import FORMAT, Reading, chain, parsed
from .statecode import StateCode
from .thread import Thread

_REBASE_RATIO = 4  # a whole state is written once the deltas since the last one are this much larger than it
_REBASE_LEAST = 65_536  # and not before they have this many characters


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is stored: where it waits, so that its answer can be put there."""

    id: str
    value: Any
    node: str
    task: str
    owner: str
    memo: Any = None

    @property
    def way(self) -> list[str]:
        """The tasks on the way down to it, itself last: an owner is checkpoint/task/call, again and again."""
        return [*map(_unquoted, self.owner.split("/")[1::3]), self.task]


class Pending:
    """What is known of the tasks of the super-step after a checkpoint, by their ids."""

    __slots__ = ("answers", "asked", "errors", "results")

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}
        self.answers: dict[str, list[tuple[Any, Any]]] = {}
        self.asked: dict[str, list[Asked]] = {}
        self.errors: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint, read."""

    checkpoint: int
    parent: int | None
    position: Position
    source: str
    run_id: str
    at: float
    last_event: int
    visits: Mapping[str, int]
    pending: Pending


class Journal:
    """The checkpoints of one graph in a thread: the root graph's, or those of a graph inside a task."""

    __slots__ = ("_clock", "_code", "_enough", "_owner", "_size", "_thread", "base", "head", "last_event")

    def __init__(self, thread: Thread, definition: Definition, *, clock: Clock, owner: str = "") -> None:
        self._thread = thread
        self._code = StateCode(definition)
        self._clock = clock
        self._owner = owner
        self.head = 0
        self.base = 0
        self.last_event = 0
        self._size = 0  # characters written since the base
        self._enough = _REBASE_LEAST  # of them, to ask whether a new base would be worth its size

    @property
    def thread_id(self) -> str:
        return self._thread.thread_id

    def place(self, task: Task) -> str:
        """Where what goes on inside a task of the next super-step is kept."""
        return f"{self._pending_owner(self.head)}/{_quoted(task.id)}"

    def inside(self, owner: str, definition: Definition) -> Journal:
        """The journal of a graph that runs inside a task."""
        return Journal(self._thread, definition, clock=self._clock, owner=owner)

    def _pending_owner(self, checkpoint: int) -> str:
        return f"{self._owner}/{checkpoint}" if self._owner else str(checkpoint)

    # --- writing -----------------------------------------------------------------------------------

    async def commit(
        self,
        position: Position,
        folded: Folded,
        *,
        source: str,
        run_id: str,
        ran: Iterable[str] = (),
        visits: Mapping[str, int] | None = None,
    ) -> str:
        """Write a checkpoint on the one this run stands on, and stand on it. Its id.

        `ran`: the nodes of this super-step. `visits`: those of the whole run, counted.
        """
        frontier = position.frontier
        whole = self._whole(folded)
        values = self._code.deltas(folded) if whole is None else whole
        body: dict[str, Any] = {"step": position.step, "source": source, "next": self._code.tasks(frontier)}
        if self.head:
            body["parent"] = self.head
        if whole is not None:
            body["format"] = FORMAT
        if whole is not None or source == "input":
            body["run"] = run_id
        if self.last_event:
            body["event"] = self.last_event
        if counted := Counter(ran) if whole is None else dict(visits or {}):
            body["ran"] = counted
        if frontier.arrived:
            body["joins"] = {str(index): sorted(nodes) for index, nodes in frontier.arrived.items()}
        if frontier.deferred:
            body["deferred"] = sorted(frontier.deferred)
        if whole is None and folded.dropped:
            body["gone"] = list(folded.dropped)
        text = _with_values(dump_json(body), values)
        settles = self._pending_owner(self.head) if self.head else None
        base = self.base if whole is None else 0
        self.head = await self._thread.append(
            self._owner, [text], at=self._clock.time(), base=base, settles=settles
        )
        if whole is not None:
            self.base, self._size = self.head, 0
        self._size += len(text)
        return str(self.head)

    def _whole(self, folded: Folded) -> dict[str, str] | None:
        """All values, where a new base is due: at the start, or when reading the deltas costs too much."""
        if self.head == 0:
            return self._code.whole(folded)
        if self._size < self._enough:
            return None
        whole = self._code.whole(folded)
        size = sum(map(len, whole.values()))
        # Asked again when the deltas have doubled: looking at the whole must not cost more than they do.
        self._enough = max(_REBASE_LEAST, _REBASE_RATIO * size, 2 * self._size)
        return whole if self._size > _REBASE_RATIO * size else None

    async def note(self, notes: Sequence[tuple[Task, Result]]) -> None:
        """Keep the results of finished tasks until the super-step is over."""
        await self._note(
            *[{"task": task.id, **self._code.result(task.node, result)} for task, result in notes]
        )

    async def note_error(self, task: Task, error: str) -> None:
        await self._note({"task": task.id, "error": error, "event": self.last_event})

    async def note_asked(self, task: Task, id: str, value: Any, memo: Any) -> None:
        """Keep a task's question, and what goes with it."""
        asked = [
            id,
            *[_kept(data, f"node {task.node!r}: what it asked", task.node) for data in (value, memo)],
        ]
        await self._note({"task": task.id, "node": task.node, "asked": asked, "event": self.last_event})

    async def answer(self, answers: Sequence[tuple[Asked, Any]]) -> None:
        """Keep the answers to questions, wherever in the thread they were asked."""
        for asked, value in answers:
            answer = _kept(value, f"the answer to {asked.node!r}", asked.node)
            given = [*self._answers(asked), [answer, ANYTHING.encode(asked.memo)]]
            text = dump_json({"task": asked.task, "answers": given})
            await self._thread.append(asked.owner, [text], at=self._clock.time(), base=self.base)

    def _answers(self, asked: Asked) -> list[Any]:
        bodies = [parsed(entry) for entry in self._thread.owned(asked.owner).values()]
        given = [body["answers"] for body in bodies if body.get("task") == asked.task and "answers" in body]
        return given[-1] if given else []

    async def _note(self, *bodies: Mapping[str, Any]) -> None:
        texts = [dump_json(body) for body in bodies]
        await self._thread.append(
            self._pending_owner(self.head), texts, at=self._clock.time(), base=self.base
        )

    # --- reading -----------------------------------------------------------------------------------

    def load(self, checkpoint: int | None = None) -> Loaded | None:
        """Read a checkpoint, by default the newest, and stand on it. None where there is none."""
        bodies = self._thread.owned(self._owner)
        seq = max(bodies, default=None) if checkpoint is None else checkpoint
        if seq is None or seq not in bodies:
            return None
        with _undamaged(self.thread_id):
            reading = Reading(self.thread_id, chain(bodies, seq))
            loaded = self._loaded(reading)
        self.head, self.base = seq, reading.base
        self.last_event = loaded.last_event
        self._size = sum(len(entry.body) for number, entry in bodies.items() if self.base <= number <= seq)
        if self._size > _REBASE_LEAST:
            self._enough = max(_REBASE_LEAST, _REBASE_RATIO * len(dump_json(reading.stored)))
        return loaded

    def load_all(self, limit: int | None = None) -> list[Loaded]:
        """The checkpoints that there are, newest first."""
        bodies = self._thread.owned(self._owner)
        found: list[Loaded] = []
        unwanted = 0 if limit is None else max(0, len(bodies) - limit)
        reading = Reading(self.thread_id)
        with _undamaged(self.thread_id):
            for index, seq in enumerate(sorted(bodies)):
                if not reading.take_next(bodies[seq]):  # a branch, or a new base: read it from there
                    reading = Reading(self.thread_id, chain(bodies, seq))
                if index >= unwanted:
                    found.append(self._loaded(reading))
        return found[::-1]

    def _loaded(self, reading: Reading) -> Loaded:
        entry, body = reading.entry, reading.body
        pending, noted = self._pending(entry.seq)
        return Loaded(
            checkpoint=entry.seq,
            parent=body.get("parent"),
            position=Position(
                self._code.values(reading.stored),
                self._code.frontier(body["next"], body.get("joins", {}), body.get("deferred", ())),
                int(body["step"]),
            ),
            source=body["source"],
            run_id=reading.run_id,
            at=entry.at,
            last_event=max(reading.last_event, noted),
            visits=Counter(reading.visits),
            pending=pending,
        )

    def _pending(self, checkpoint: int) -> tuple[Pending, int]:
        owner, last_event = self._pending_owner(checkpoint), 0
        pending = Pending()
        for entry in self._thread.owned(owner).values():
            body = parsed(entry)
            last_event = max(last_event, body.get("event", 0))
            task = body["task"]
            pending.asked.pop(task, None)
            pending.errors.pop(task, None)
            if "error" in body:
                pending.errors[task] = body["error"]
            elif "asked" in body:
                pending.asked[task] = [_asked(body, owner)]
            elif "answers" in body:
                pending.answers[task] = [
                    (ANYTHING.decode(value), ANYTHING.decode(memo)) for value, memo in body["answers"]
                ]
            else:
                pending.results[task] = self._code.read_result(body)
        return pending, last_event

    def open_questions(self, checkpoint: int) -> list[Asked]:
        """The questions that wait on a checkpoint, at any depth."""
        waiting: dict[tuple[str, str], Asked] = {}
        with _undamaged(self.thread_id):
            for entry in self._thread.below(self._pending_owner(checkpoint)):
                body = parsed(entry)
                place = (entry.owner, str(body.get("task")))
                if "asked" in body:
                    waiting[place] = _asked(body, entry.owner)
                else:
                    waiting.pop(place, None)
        return list(waiting.values())

    async def copy_to(self, thread_id: str, checkpoint: int) -> None:
        """Begin a thread with a checkpoint of this one and all that there is of what led to it."""
        entries = self._thread.owned(self._owner)
        kept: list[Entry] = []
        number: int | None = checkpoint
        while number is not None and number in entries:
            kept.append(entries[number])
            number = parsed(entries[number]).get("parent")
        await self._thread.copy(thread_id, kept[::-1])


@contextmanager
def _undamaged(thread_id: str) -> Generator[None]:
    """Read what a journal wrote; where it is not as it was written, the thread is damaged."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"thread {thread_id!r} is damaged: {error!r}") from error


def _quoted(task_id: str) -> str:
    """A task's id as one part of an owner's path."""
    return task_id.replace("%", "%25").replace("/", "%2F")


def _unquoted(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def as_interrupt(asked: Asked) -> Interrupt:
    """The question as a person sees it."""
    return Interrupt(asked.id, asked.value, asked.node, "/".join(asked.way[:-1]))


def _asked(body: Mapping[str, Any], owner: str) -> Asked:
    asked_id, value, memo = body["asked"]
    return Asked(
        str(asked_id), ANYTHING.decode(value), body["node"], body["task"], owner, ANYTHING.decode(memo)
    )


def _with_values(body: str, values: Mapping[str, str]) -> str:
    """The text of a checkpoint: that of its body, with the texts of its values put in as they are."""
    inside = ",".join(f"{dump_json(name)}:{text}" for name, text in values.items())
    return f'{body[:-1]},"values":{{{inside}}}}}'


def _kept(value: Any, what: str, node: str) -> Any:
    """A question or an answer, encoded."""
    try:
        data = ANYTHING.encode(value)
        text_of(data)
    except (CodecError, RecursionError) as error:
        raise CheckpointError(f"{what} cannot be kept in the checkpoint: {error}", node=node) from error
    return data
