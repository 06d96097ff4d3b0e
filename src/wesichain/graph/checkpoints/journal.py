"""The journal: what one run reads from a thread's log, and adds to it.

A checkpoint holds what its super-step changed and what runs next. Until the next one, notes are
pending on it: the results of siblings that have finished, the questions that nodes asked, the answers
that they were given, the errors that they met. The next checkpoint settles them.

Everything is known by name: a task by its node and the number of its Send, a join by its sources and its
target, a question by its task and the name that it was asked under. A branch is a checkpoint that begins
as another was: its `moment` says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from wesichain.core import Clock, JsonValue
from wesichain.core.internal import Spent, dump_json, from_plain, to_plain
from wesichain.errors import CheckpointError
from wesichain.graph.context import Answered, Asked, NodeAnswer, quoted, unquoted
from wesichain.graph.definition import Definition
from wesichain.graph.state import NodeResult, StateValues
from wesichain.graph.superstep import Folded, Frontier, NodeTask, Position
from wesichain.store import Entry

from .log_reading import FORMAT, Reading, chain, moved, once_in, parsed, undamaged
from .migrating import MigratedState, plain_values
from .notes import (
    Loaded,
    Notes,
    OuterWrites,
    Pending,
    ThreadQuestions,
    read_answered,
    write_answer,
    write_answered,
    write_questions,
)
from .statecode import ReadValues, StateCode, with_values
from .thread import Thread

_REBASE_RATIO = 4  # a whole state is written once the deltas since the last one are this much larger than it
_REBASE_LEAST = 65_536  # and not before they have this many characters


_OTHER_NOTES = {"error", "questions", "answer", "did", "asked", "answers"}  # than a result


class _CheckpointOrigin(NamedTuple):
    """How the checkpoint that a journal stands on was made."""

    parent: int | None
    source: str
    at: float
    event: int


class ThreadJournal:
    """The checkpoints of one graph in a thread: the root graph's, or those of a graph inside a task."""

    __slots__ = (
        "_answered",
        "_clock",
        "_code",
        "_definition",
        "_enough",
        "_kept_event",
        "_made",
        "_migration",
        "_moment",
        "_name",
        "_noted",
        "_owner",
        "_size",
        "_thread",
        "_version",
        "able_at",
        "base",
        "can_go_on",
        "counted_from",
        "head",
        "last_event",
        "spent",
    )

    def __init__(
        self, thread: Thread, definition: Definition, *, clock: Clock, owner: str = "", name: str = ""
    ) -> None:
        self._thread = thread
        self._definition = definition
        self._code = StateCode(definition)
        self._clock = clock
        self._owner = owner
        self._name = name
        self._version = definition.version  # of what was read
        self._migration: MigratedState | None = None
        self.can_go_on = False  # whether this program was found to be able to
        self.able_at: Frontier | None = None  # the tasks from which it was found to be able to
        self._answered: list[Any] = []  # what was answered up to the head, as it is stored
        self.counted_from = 0  # the step that `max_steps` counts from
        self.spent: Callable[[], Spent] | None = None  # of the run that writes
        self._noted = Spent()
        self.head = 0
        self.base = 0
        self._made = _CheckpointOrigin(None, "", 0.0, 0)
        self._moment = 0  # the checkpoint that the head stands for: itself, or that which it branched from
        self.last_event = 0
        self._kept_event = 0  # the last one that the log has
        self._size = 0  # characters written since the base
        self._enough = _REBASE_LEAST  # of them, to ask whether a new base would be worth its size

    @property
    def thread_id(self) -> str:
        return self._thread.thread_id

    def place(self, task: NodeTask, checkpoint: int | None = None) -> str:
        """Where what goes on inside a task is kept: after the head, or after another checkpoint."""
        return f"{self._pending_owner(self.head if checkpoint is None else checkpoint)}/{quoted(task.id)}"

    def moment(self, task: NodeTask, step: int) -> str:
        """The name of a task of the next super-step, the same on every branch that begins there."""
        return f"{f'{self._name}/{step}' if self._name else self._moment}/{quoted(task.id)}"

    def inside(self, owner: str, name: str, definition: Definition) -> ThreadJournal:
        """The journal of a graph that runs inside a task."""
        return ThreadJournal(self._thread, definition, clock=self._clock, owner=owner, name=name)

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
        outer: OuterWrites | None = None,
        so_far: OuterWrites | None = None,
    ) -> str:
        """Write a checkpoint on the one this run stands on, and stand on it. Its id.

        `ran`: the nodes of this super-step. `visits`: those of the whole run, counted. `outer`: the writes of
        this super-step for the graph outside; `so_far`: those of all of them.
        """
        whole = self._base_checkpoint(folded)
        body = self._body(position, source=source, run_id=run_id, is_whole=whole is not None)
        if counted := Counter(ran) if whole is None else dict(visits or {}):
            body["ran"] = counted
        if whole is None and folded.dropped:
            body["gone"] = list(folded.dropped)
        if (out := outer if whole is None else so_far) is not None:
            body |= {"wrote": sorted(out.keys), "out": self._code.writes(out.writes)}
        values = self._code.deltas(folded) if whole is None else whole
        settles = self._pending_owner(self.head) if self.head else None
        if settles is not None and not self._thread.has_pending(settles):
            settles = None
        answered = [] if settles is None else [write_answered(one) for one in self._thread.answered(settles)]
        if answered or (whole is not None and self._answered):
            body["answered"] = answered if whole is None or self._owner else [*self._answered, *answered]
        if self._thread.once:
            is_all = source == "update" or (whole is not None and not self._owner)
            body |= self._done_once(settles, is_all=is_all)
        text = with_values(dump_json(body), values)
        base, now = self.base if whole is None else 0, self._clock.time()
        made = _CheckpointOrigin(self.head or None, source, now, self.last_event)
        self.head = self._moment = await self._thread.append(
            self._owner, [text], at=now, base=base, settles=settles
        )
        self._made, self._kept_event = made, self.last_event
        self._answered += answered
        if whole is not None:
            self.base, self._size = self.head, 0
        self._size += len(text)
        return str(self.head)

    def _body(self, position: Position, *, source: str, run_id: str, is_whole: bool) -> dict[str, Any]:
        frontier = position.frontier
        body: dict[str, Any] = {"step": position.step, "source": source, "next": self._code.tasks(frontier)}
        if self.head:
            body["parent"] = self.head
        if is_whole:
            body["format"] = FORMAT
            if (version := self._definition.version) > 1:
                body["version"] = version
        if is_whole or source == "input":
            body["run"] = run_id
        if self.last_event:
            body["event"] = self.last_event
        if self.counted_from and source != "input":
            body["from"] = self.counted_from
        if (spent := self._new_spending()) is not None:
            body["spent"] = to_plain(spent)
        if frontier.arrived:
            body["joins"] = self._code.joins(frontier)
        if frontier.deferred:
            body["deferred"] = sorted(frontier.deferred)
        return body

    def _new_spending(self) -> Spent | None:
        """What the thread has spent, where agents have spent anything since it was last stored."""
        spent = None if self.spent is None else self.spent()
        if spent is None or not spent.steps or spent.steps == self._noted.steps:
            return None
        self._noted = spent
        return spent

    async def note_spent(self) -> None:
        """Keep what a run that stopped has spent since the last checkpoint."""
        if self.head and (spent := self._new_spending()) is not None:
            await self._note({"spent": to_plain(spent)})

    def _base_checkpoint(self, folded: Folded) -> dict[str, str] | None:
        """All values, where a new base is due: at the start, or when reading the deltas costs too much."""
        if self.head == 0 or self._size < 0:
            return self._code.whole(folded)
        if self._size < self._enough:
            return None
        whole = self._code.whole(folded)
        size = sum(map(len, whole.values())) + len(dump_json(self._answered))
        # Asked again when the deltas have doubled: looking at the whole must not cost more than they do.
        self._enough = max(_REBASE_LEAST, _REBASE_RATIO * size, 2 * self._size)
        return whole if self._size > _REBASE_RATIO * size else None

    def _done_once(self, settles: str | None, *, is_all: bool) -> Mapping[str, JsonValue]:
        """All that was done once: in the super-step that ends, or, where nothing before is read, at all."""
        below = () if settles is None else self._thread.below(settles)
        once = self._thread.once if is_all else once_in(below)
        return {"once": once} if once else {}

    async def branch(self) -> None:
        """Begin anew where the head was, with all that is pending on it, and leave the head as it is.

        What was done once on any branch stays done on this one.
        """
        body = parsed(self._thread.owned(self._owner)[self.head])
        stays: dict[str, Any] = {"source": "branch", "parent": self.head, "moment": self._moment}
        stays |= {key: body[key] for key in ("step", "next", "joins", "deferred", "from") if key in body}
        if self._thread.once:
            stays["once"] = self._thread.once
        text, pending = with_values(dump_json(stays), {}), self._thread.below(self._pending_owner(self.head))
        made = _CheckpointOrigin(self.head, "branch", self._clock.time(), self.last_event)

        def entries(first: int) -> list[Entry]:
            branch = Entry(first, self._owner, self.base, made.at, text)
            return [branch, *moved(pending, self.head, first)]

        last = await self._thread.write(entries)
        self.head, self._made = last - len(pending), made
        self._size += len(text) if self._size >= 0 else 0

    async def note(self, notes: Sequence[tuple[NodeTask, NodeResult]]) -> None:
        """Keep the results of finished tasks until the super-step is over."""
        await self._note(
            *[{"task": task.id, **self._code.result(task.node, result)} for task, result in notes]
        )

    async def note_error(self, task: NodeTask, error: str) -> None:
        await self._note({"task": task.id, "error": error, "event": self.last_event})

    async def note_event(self, last: int) -> None:
        """Keep how far the log has come, where there is something to resume."""
        if self.head and last > self._kept_event:
            self.last_event = last
            await self._note({"event": last})

    async def note_done(self, task: NodeTask, name: str, data: JsonValue, once: str | None = None) -> None:
        """Keep something that a task has done, before it does the next; under an id that is used `once`, for
        as long as the thread is.
        """
        marked = {} if once is None else {"once": once}
        await self._note({"task": task.id, "did": [name, data], **marked})

    def once(self, key: str) -> JsonValue:
        """The data kept under an id that is used once, wherever in the thread that was done."""
        return self._thread.once.get(key)

    async def note_questions(self, task: NodeTask, asked: Sequence[Asked]) -> None:
        """Keep the questions of a task, and what goes with each, in place of those that it asked before."""
        await self._note({**write_questions(task.id, task.node, asked), "event": self.last_event})

    async def answer(self, answers: Sequence[tuple[Asked, NodeAnswer]]) -> None:
        """Keep the answers to questions, wherever in the thread they were asked: all of them, or none."""
        texts = [(asked.owner, dump_json(write_answer(given, asked))) for asked, given in answers]
        if texts:
            now = self._clock.time()
            await self._thread.write(
                lambda first: [
                    Entry(seq, owner, self.base, now, text)
                    for seq, (owner, text) in enumerate(texts, start=first)
                ]
            )

    async def _note(self, *bodies: Mapping[str, Any]) -> None:
        texts = [dump_json(body) for body in bodies]
        await self._thread.append(
            self._pending_owner(self.head), texts, at=self._clock.time(), base=self.base
        )
        self._kept_event = max([self._kept_event, *[body["event"] for body in bodies if "event" in body]])

    # --- reading -----------------------------------------------------------------------------------

    def load(self, checkpoint: int | None = None) -> Loaded | None:
        """Read a checkpoint, by default the newest, and stand on it. None where there is none."""
        bodies = self._thread.owned(self._owner)
        seq = max(bodies, default=None) if checkpoint is None else checkpoint
        if seq is None or seq not in bodies:
            return None
        with undamaged(self.thread_id):
            reading = Reading(self.thread_id, chain(bodies, seq))
            loaded = self._loaded(reading)
        self.head, self.base = seq, reading.base
        self._moment = reading.moment
        self._made = _CheckpointOrigin(loaded.parent, loaded.source, loaded.at, reading.last_event)
        self.last_event = self._kept_event = loaded.last_event
        self._size = sum(len(entry.body) for number, entry in bodies.items() if self.base <= number <= seq)
        if self._size > _REBASE_LEAST:
            self._enough = max(_REBASE_LEAST, _REBASE_RATIO * len(dump_json(reading.stored)))
        self._version, self._answered = reading.version, list(reading.answered)
        self.counted_from = loaded.counted_from
        if reading.version != self._definition.version or loaded.refusal is not None:
            self._size = -1  # what was migrated is no delta of what is stored
        return loaded

    def remembered(self, loaded: Loaded) -> Loaded:
        """A checkpoint that this journal stands on already, with what is pending on it now."""
        with undamaged(self.thread_id):
            notes = self._thread.notes(self._pending_owner(self.head))
            pending = self._pending_of(notes, self._migration, self._version)
        self.last_event = self._kept_event = max(loaded.last_event, notes.last_event)
        counted = loaded.position.step if pending.answers else loaded.counted_from
        return replace(
            loaded,
            pending=pending,
            last_event=self.last_event,
            answered=self._all_answered(self._answered, self.head),
            counted_from=counted,
        )

    def _all_answered(self, rows: Sequence[Any], checkpoint: int) -> tuple[Answered, ...]:
        """What was answered up to a checkpoint, and on it."""
        pending = self._thread.answered(self._pending_owner(checkpoint))
        return (*map(read_answered, rows), *pending)

    def standing(self, position: Position, *, visits: Mapping[str, int], run_id: str) -> Loaded:
        """The checkpoint that this journal stands on, of a run that has come to it."""
        return Loaded(
            checkpoint=self.head,
            parent=self._made.parent,
            position=Position(self._code.kept(position.values), position.frontier, position.step),
            source=self._made.source,
            run_id=run_id,
            at=self._made.at,
            last_event=self._made.event,
            visits=Counter(visits),
            pending=Pending(),
            outer=OuterWrites(),
            counted_from=self.counted_from,
            spent=None if self.spent is None else self.spent(),
        )

    async def is_current(self, *, in_place: bool) -> bool:
        """Whether the thread is still as this journal left it."""
        return self._size >= 0 and await self._thread.is_current(in_place=in_place)

    def load_all(self, limit: int | None = None) -> list[Loaded]:
        """The checkpoints that there are, newest first. Each costs what it changed."""
        bodies = self._thread.owned(self._owner)
        found: list[Loaded] = []
        unwanted = 0 if limit is None else max(0, len(bodies) - limit)
        reading, values = Reading(self.thread_id), None
        with undamaged(self.thread_id):
            for index, seq in enumerate(sorted(bodies)):
                if not reading.take_next(bodies[seq]):  # a branch, or a new base: read it from there
                    reading, values = Reading(self.thread_id, chain(bodies, seq)), None
                if index >= unwanted:
                    if values is not None:
                        values = self._next_values(values, reading)
                    found.append(self._loaded(reading, values))
                    values = None if found[-1].refusal is not None else found[-1].position.values
        return found[::-1]

    @property
    def count(self) -> int:
        """How many checkpoints were read."""
        return len(self._thread.owned(self._owner))

    @property
    def is_newest(self) -> bool:
        """Whether this journal stands on the newest checkpoint of its thread."""
        return self.head > 0 and self.head == max(self._thread.owned(self._owner), default=0)

    def is_branch_of(self, checkpoint: int) -> bool:
        """Whether the newest checkpoint is a branch that begins there, and nothing has been run on it yet."""
        bodies = self._thread.owned(self._owner)
        body = parsed(bodies[max(bodies)]) if bodies else {}
        return body.get("source") == "branch" and body.get("parent") == checkpoint

    def _next_values(self, values: StateValues, reading: Reading) -> StateValues | None:
        """The values one checkpoint on; None where they have to be read from the beginning."""
        if reading.version != self._definition.version:
            return None
        try:
            return self._code.next_values(values, reading.stored, reading.body)
        except CheckpointError:
            return None

    def _loaded(self, reading: Reading, values: StateValues | None = None) -> Loaded:
        """`values`: where they are known already."""
        entry, body, code, version = reading.entry, reading.body, self._code, reading.version
        read = ReadValues(values) if values is not None else code.values(reading.stored, version)
        frontier, renamed = code.frontier(body, read.migration, version, is_old=reading.format < 2)
        owner = self._pending_owner(entry.seq)
        notes = Notes(owner, self._thread.owned(owner).values(), renamed)
        pending = self._pending_of(notes, read.migration, version)
        self._migration = read.migration
        refusal = read.refusal or pending.refusal
        visits = Counter[str]()
        for node, count in reading.visits.items():
            visits[self._definition.renamed(node, version)] += count
        return Loaded(
            checkpoint=entry.seq,
            parent=body.get("parent"),
            position=Position(read.values, frontier, int(body["step"])),
            source=body["source"],
            run_id=reading.run_id,
            at=entry.at,
            last_event=max(reading.last_event, notes.last_event),
            visits=visits,
            pending=pending,
            outer=OuterWrites(frozenset(reading.wrote), code.read_writes(reading.out)),
            refusal=refusal,
            stored=plain_values(reading.stored) if read.refusal is not None else None,
            renamed=renamed,
            answered=self._all_answered(reading.answered, entry.seq),
            counted_from=int(body["step"]) if pending.answers else reading.counted_from,
            spent=self._read_spent(notes.spent or reading.spent),
        )

    def _read_spent(self, stored: Any) -> Spent | None:
        found = None if stored is None else from_plain(Spent, stored)
        self._noted = found or self._noted
        return found

    def _pending_of(self, notes: Notes, migration: MigratedState | None, version: int) -> Pending:
        """The notes, for a run to go on with; each result is read once."""
        while notes.unread:
            task, stored = notes.unread.popitem()
            try:
                notes.pending.results[task] = self._code.read_result(stored, migration, version)
            except CheckpointError as error:
                notes.pending.refusal = error
        notes.pending.moved = frozenset()
        notes.pending.waiting = (
            dict(notes.asked) if self._owner else {}
        )  # the outermost graph's may be deeper
        return notes.pending

    async def migrate(self, loaded: Loaded) -> Loaded:
        """Write a checkpoint of an older version anew, with what is pending on it, under the names that nodes
        have in this one, and stand on it. The old one stays as it was.
        """
        body = self._body(loaded.position, source="migration", run_id=loaded.run_id, is_whole=True)
        body["moment"] = self._moment
        if loaded.visits:
            body["ran"] = dict(loaded.visits)
        if self._thread.once:
            body["once"] = self._thread.once
        if self._answered and not self._owner:
            body["answered"] = self._answered
        if self._owner:
            out = loaded.outer
            body |= {"wrote": sorted(out.keys), "out": self._code.writes(out.writes)}
        text = with_values(dump_json(body), self._code.whole(Folded(loaded.position.values, {})))
        owner, now = self._pending_owner(self.head), self._clock.time()
        pending = [self._migrated(entry, owner, loaded) for entry in self._thread.below(owner)]

        def entries(first: int) -> list[Entry]:
            return [Entry(first, self._owner, first, now, text), *moved(pending, self.head, first)]

        # An inner graph has no branches: what was pending on its old checkpoint is on the new one alone.
        await self._thread.write(entries, settles=owner if self._owner else None)
        found = self.load()
        assert found is not None, "it was written just now"
        return found

    def _migrated(self, entry: Entry, owner: str, loaded: Loaded) -> Entry:
        """An entry that is pending on a checkpoint, under the names of this version."""
        ids = loaded.renamed
        if entry.owner != owner:
            way = entry.owner.removeprefix(f"{owner}/").split("/")
            way[0] = quoted(ids.get(unquoted(way[0]), unquoted(way[0])))
            return replace(entry, owner="/".join([owner, *way]))
        body = parsed(entry)
        if "task" not in body:
            return entry
        task = body["task"] = ids.get(body["task"], body["task"])
        if "node" in body:
            body["node"] = self._definition.renamed(body["node"], self._version)
        if task in loaded.pending.results and not body.keys() & _OTHER_NOTES:
            node = loaded.position.frontier.by_id[task].node
            body = {"task": task, **self._code.result(node, loaded.pending.results[task])}
        return replace(entry, body=dump_json(body))

    def open_questions(self, checkpoint: int, frontier: Frontier) -> ThreadQuestions:
        """The questions that wait on a checkpoint, at any depth, in the order of the tasks that ask."""
        with undamaged(self.thread_id):
            questions = self._thread.questions(self._pending_owner(checkpoint))
            questions.put_in_order(frontier)
        return questions

    async def copy_to(self, thread_id: str, checkpoint: int) -> None:
        """Begin a thread with a checkpoint of this one, all that there is of what led to it, what is pending
        on it, and what was done once, then or later.
        """
        entries = self._thread.owned(self._owner)
        kept: list[Entry] = []
        number: int | None = checkpoint
        while number is not None and number in entries:
            kept.append(entries[number])
            number = parsed(entries[number]).get("parent")
        if self._thread.once:
            body = parsed(kept[0]) | {"once": self._thread.once}
            kept[0] = replace(kept[0], body=dump_json(body))
        pending = self._thread.below(self._pending_owner(checkpoint))
        await self._thread.copy(thread_id, [*kept[::-1], *moved(pending, checkpoint, checkpoint)])
