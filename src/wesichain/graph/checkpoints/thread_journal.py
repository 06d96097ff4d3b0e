"""The journal: reads and writes the checkpoints of one graph in a thread's log.

A checkpoint stores the changes of its super-step and the tasks that run next. Notes are pending on it until
the next checkpoint replaces them: results of finished tasks, questions, answers and errors.

Everything is identified by name: a task by its node and the number of its Send, a join by its sources and
target, a question by its task and its name. A branch is a checkpoint that repeats an earlier one, which its
`moment` identifies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import Clock, Spent, Value, dump_json, field, from_plain, replace, to_plain
from wesichain.errors import CheckpointError
from wesichain.graph.definition import Definition
from wesichain.graph.questions import Answered, GraphInterrupt, quoted, unquoted
from wesichain.graph.state.schema import StateValues
from wesichain.graph.state.updates import NodeResult, Write
from wesichain.graph.superstep import Folded, Frontier, NodeTask, Position
from wesichain.policy.internal import Account
from wesichain.store import ThreadEntry

from .fold import (
    FORMAT,
    CheckpointFold,
    OpenQuestions,
    PendingEntries,
    chain,
    moved,
    once_in,
    parsed,
    read_answered,
    undamaged,
    write_answer,
    write_answered,
    write_questions,
)
from .statecode import MigratedState, ReadValues, StateCode, plain_values, with_values
from .thread import Thread

_REBASE_RATIO = 4  # write the whole state once the deltas since the last base are so many times larger,
_REBASE_LEAST = 65_536  # and have at least this many characters
_SPENT = '"spent":'
_OTHER_NOTES = {"error", "questions", "answer", "did", "asked", "answers"}  # than a result


class OuterWrites(Value):
    """The writes of an inner graph so far: the names of all keys that it wrote, and in order the writes to
    those that have a reducer in the outer graph.
    """

    keys: frozenset[str] = frozenset()
    writes: tuple[Write, ...] = ()

    def __or__(self, more: OuterWrites) -> OuterWrites:
        return OuterWrites(self.keys | more.keys, (*self.writes, *more.writes))


class LoadedCheckpoint(Value):
    """A checkpoint as read from the log, with the names that nodes have in this program.

    `refusal` is the reason why this program cannot resume from its values; `stored` has them as plain data in
    that case. `renamed` maps stored task ids to the present ones. `settled` are the questions answered before
    the checkpoint, as stored.
    """

    checkpoint: int
    parent: int | None
    position: Position
    source: str
    run_id: str
    at: float
    last_event: int
    visits: Mapping[str, int]
    pending: PendingEntries
    outer: OuterWrites
    refusal: CheckpointError | None = None
    stored: Mapping[str, Any] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    settled: Sequence[Any] = ()
    counted_from: int = 0  # the step that `max_steps` counts from
    spent: Spent | None = None


class ThreadJournal:
    """The checkpoints of one graph in a thread: the root graph's, or those of a graph inside a task."""

    def __init__(
        self, thread: Thread, definition: Definition, *, clock: Clock, owner: str = "", name: str = ""
    ) -> None:
        self._thread = thread
        self._definition = definition
        self._code = StateCode(definition)
        self._clock = clock
        self._owner = owner
        self._name = name
        self._fold = CheckpointFold(thread.thread_id)  # up to the current checkpoint
        self._migration: MigratedState | None = None  # of the values that were read last
        self.is_checked = False  # whether inner graphs were found resumable
        self.checked_frontier: Frontier | None = None  # found resumable
        self.counted_from = 0  # the step that `max_steps` counts from
        self.account: Account | None = None  # of the run that writes
        self.last_event = 0
        self._kept_event = 0  # the last one that is stored
        self._size = 0  # characters written since the base
        self._needs_base = True  # for the first checkpoint, and for values that were migrated
        self._enough = _REBASE_LEAST  # the size at which a new base is considered

    @property
    def head(self) -> int:
        """The number of the current checkpoint; 0 before the first."""
        return self._fold.entry.seq

    @property
    def thread_id(self) -> str:
        return self._thread.thread_id

    def place(self, task: NodeTask, checkpoint: int | None = None) -> str:
        """The owner prefix of the entries of inner graphs of a task, pending on the head or a checkpoint."""
        return f"{self._pending_owner(self.head if checkpoint is None else checkpoint)}/{quoted(task.id)}"

    def moment(self, task: NodeTask, step: int) -> str:
        """The name of a task of the next super-step; all branches from this checkpoint share it."""
        return f"{f'{self._name}/{step}' if self._name else self._fold.moment}/{quoted(task.id)}"

    def inside(self, owner: str, name: str, definition: Definition) -> ThreadJournal:
        """Return the journal of a graph that runs inside a task."""
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
        outer: OuterWrites | None = None,
    ) -> str:
        """Write the next checkpoint, move to it, and return its id.

        `ran`: the nodes of this super-step. `outer`: its writes for the outer graph.
        """
        fold, head = self._fold, self.head
        counted: dict[str, int] = {}  # `Counter(ran)` takes five times as long
        for node in ran:
            counted[node] = counted.get(node, 0) + 1
        out = None if outer is None else (sorted(outer.keys), self._code.writes(outer.writes))
        settles = self._pending_owner(head) if head else None
        if settles is not None and not self._thread.owners_below(settles):
            settles = None
        answered = [] if settles is None else [write_answered(one) for one in self._thread.answered(settles)]
        whole = self._base_checkpoint(folded)
        if whole is not None:  # earlier checkpoints are not read any more
            counted = counted if source == "input" else self._visits(fold) + Counter(counted)
            if self._owner:
                keys, writes = out or ((), ())
                out = sorted(fold.wrote.union(keys)), [*fold.out, *writes]
            else:
                answered = [*fold.answered, *answered]
        body = self._body(position, source=source, run_id=run_id, is_whole=whole is not None)
        if counted:
            body["ran"] = counted
        if whole is None and folded.dropped:
            body["gone"] = list(folded.dropped)
        if out is not None:
            body["wrote"], body["out"] = out
        if answered:
            body["answered"] = answered
        if source == "update" and (spent := self._spent_by_thread()) is not None:
            body["spent"] = spent
        if self._thread.once:
            is_all = source == "update" or (whole is not None and not self._owner)
            body |= self._done_once(settles, is_all=is_all)
        values = self._code.deltas(folded) if whole is None else whole
        await self._write_checkpoint(body, values, settles=settles)
        return str(self.head)

    async def _write_checkpoint(
        self,
        body: dict[str, Any],
        values: Mapping[str, str],
        *,
        pending: Sequence[ThreadEntry] = (),
        settles: str | None = None,
    ) -> None:
        """Write a checkpoint, with copies of these pending entries, and move to it."""
        text, base, now = with_values(dump_json(body), values), self._fold.base, self._clock.time()
        is_whole = "format" in body

        def entries(first: int) -> list[ThreadEntry]:
            checkpoint = ThreadEntry(first, self._owner, first if is_whole else base, now, text)
            return [checkpoint, *moved(pending, self.head, first)] if pending else [checkpoint]

        last = await self._thread.write(entries, settles=settles)
        seq = last - len(pending)
        # From here on the run has the values: the fold does not need them.
        body["values"] = {}
        self._fold.take(ThreadEntry(seq, self._owner, seq if is_whole else base, now, ""), body)
        self._kept_event = self._fold.last_event
        if is_whole:
            self._size, self._needs_base, self._migration = 0, False, None
        self._size += len(text)

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
        spent = self._new_spending(self._fold.spent) or (self._fold.spent if is_whole else None)
        if spent is not None:
            body["spent"] = spent
        if frontier.arrived:
            body["joins"] = self._code.joins(frontier)
        if frontier.deferred:
            body["deferred"] = sorted(frontier.deferred)
        return body

    def _new_spending(self, known: Any) -> Any:
        """Return the spending of the thread as data; None if it is the same as the `known` one."""
        if self.account is None or (known is None and not self.account.steps):
            return None
        spent = to_plain(self.account.spent(self._clock.monotonic()))
        return None if known is not None and _without_time(known) == _without_time(spent) else spent

    def _base_checkpoint(self, folded: Folded) -> dict[str, str] | None:
        """Return all values if a new base is due: at the start, or when reading the deltas costs too much."""
        if self._needs_base:
            return self._code.all_values(folded)
        if self._size < self._enough:
            return None
        whole = self._code.all_values(folded)
        size = sum(map(len, whole.values())) + len(dump_json(self._fold.answered))
        is_due = self._size > _REBASE_RATIO * size
        # Consider it again when the deltas have doubled: encoding the state must not cost more than they do.
        self._enough = max(_REBASE_LEAST, _REBASE_RATIO * size, 0 if is_due else 2 * self._size)
        return whole if is_due else None

    def _done_once(self, settles: str | None, *, is_all: bool) -> Mapping[str, JsonValue]:
        """Return the records of calls with `effect="once"`: those of the super-step, or with `is_all` all."""
        below = () if settles is None else self._thread.below(settles)
        once = self._thread.once if is_all else once_in(below)
        return {"once": once} if once else {}

    async def branch(self) -> None:
        """Start a branch: repeat the head as the newest checkpoint, with copies of its pending notes.

        The branch keeps the records of calls with `effect="once"` and the spending of all other branches.
        """
        head = self._fold.body
        body: dict[str, Any] = {"source": "branch", "parent": self.head, "moment": self._fold.moment}
        body |= {key: head[key] for key in ("step", "next", "joins", "deferred", "from") if key in head}
        if self._thread.once:
            body["once"] = self._thread.once
        pending = self._thread.below(self._pending_owner(self.head))
        await self._write_checkpoint(body, {}, pending=[*pending, *self._spent_elsewhere()])

    def _spent_by_thread(self) -> Any:
        """Return the spending of all branches of the thread as data; each branch starts with that."""
        entries = self._thread.owned(self._owner)
        noted = self._thread.pending(self._pending_owner(max(entries, default=0))).spent
        bodies = (
            parsed(entries[seq]) for seq in sorted(entries, reverse=True) if _SPENT in entries[seq].body
        )
        return noted or next((body["spent"] for body in bodies if "spent" in body), self._fold.spent)

    def _spent_elsewhere(self) -> list[ThreadEntry]:
        """Return a note of it for a new branch; none at the newest checkpoint, which has it."""
        spent = None if self.is_newest else self._spent_by_thread()
        return [] if spent is None else [ThreadEntry(0, str(self.head), 0, 0.0, dump_json({"spent": spent}))]

    async def note(self, notes: Sequence[tuple[NodeTask, NodeResult]]) -> None:
        """Store the results of finished tasks until the end of the super-step."""
        await self._note(
            *[{"task": task.id, **self._code.result(task.node, result)} for task, result in notes]
        )

    async def note_error(self, task: NodeTask, error: str) -> None:
        await self._note({"task": task.id, "error": error, "event": self.last_event})

    async def note_stop(self, last_event: int, notes: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """Store the number of the last event of a stopped run and its spending. The `notes` say which part of
        it belongs to unfinished agents, which will spend it again.
        """
        note: dict[str, Any] = {}
        if last_event > self._kept_event:
            note["event"] = self.last_event = last_event
        noted = self._thread.pending(self._pending_owner(self.head)).spent
        if (spent := self._new_spending(noted or self._fold.spent)) is not None:
            note["spent"] = spent
        if self.head and (note or notes):
            owner = self._pending_owner(self.head)
            await self._write_notes([(owner, note), *notes] if note else notes)
            self._kept_event = max(self._kept_event, note.get("event", 0))

    async def note_done(self, task: NodeTask, name: str, data: JsonValue, once: str | None = None) -> None:
        """Store something that a task has done; with an id in `once`, for the lifetime of the thread."""
        owner, note = self.done_note(task, name, data)
        await self._write_notes([(owner, note if once is None else {**note, "once": once})])

    def done_note(self, task: NodeTask, name: str, data: JsonValue) -> tuple[str, Mapping[str, Any]]:
        """Return the note of something that a task has done, with its owner."""
        return self._pending_owner(self.head), {"task": task.id, "did": [name, data]}

    def once(self, key: str) -> JsonValue:
        """Return the data stored under this id on any branch of the thread; None if there is none."""
        return self._thread.once.get(key)

    async def note_questions(self, task: NodeTask, asked: Sequence[GraphInterrupt]) -> None:
        """Store the questions of a task with their memos; they replace its earlier questions."""
        await self._note({**write_questions(task.id, task.node, asked), "event": self.last_event})

    async def answer(self, answers: Sequence[Answered]) -> None:
        """Store the answers to questions at any depth of the thread: all of them, or none."""
        await self._write_notes([(given.question.owner, write_answer(given)) for given in answers])

    async def _note(self, *bodies: Mapping[str, Any]) -> None:
        owner = self._pending_owner(self.head)
        await self._write_notes([(owner, body) for body in bodies])
        self._kept_event = max([self._kept_event, *[body["event"] for body in bodies if "event" in body]])

    async def _write_notes(self, notes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        texts = [(owner, dump_json(body)) for owner, body in notes]
        base, now = self._fold.base, self._clock.time()
        if texts:
            await self._thread.write(
                lambda first: [
                    ThreadEntry(seq, owner, base, now, text)
                    for seq, (owner, text) in enumerate(texts, start=first)
                ]
            )

    # --- reading -----------------------------------------------------------------------------------

    def load(self, checkpoint: int | None = None) -> LoadedCheckpoint | None:
        """Read a checkpoint, by default the newest, and move to it. Return None if there is none."""
        bodies = self._thread.owned(self._owner)
        seq = max(bodies, default=None) if checkpoint is None else checkpoint
        if seq is None or seq not in bodies:
            return None
        with undamaged(self.thread_id):
            fold = CheckpointFold(self.thread_id, chain(bodies, seq))
            loaded = self._loaded(fold)
        self._fold = fold
        self._size = sum(len(entry.body) for number, entry in bodies.items() if fold.base <= number <= seq)
        if self._size > _REBASE_LEAST:
            self._enough = max(_REBASE_LEAST, _REBASE_RATIO * len(dump_json(fold.stored)))
        self._needs_base = fold.version != self._definition.version or loaded.refusal is not None
        return self._moved_to(loaded)

    def reload(self, position: Position) -> LoadedCheckpoint:
        """Read the current checkpoint again, using the position that the run has reached there."""
        values = self._code.kept(position.values)
        with undamaged(self.thread_id):
            return self._moved_to(self._loaded(self._fold, values, position.frontier))

    def _moved_to(self, loaded: LoadedCheckpoint) -> LoadedCheckpoint:
        self.last_event = self._kept_event = loaded.last_event
        self.counted_from = loaded.counted_from
        return loaded

    async def is_current(self, *, in_place: bool) -> bool:
        """Whether nothing has been written to the thread since this journal last did."""
        return not self._needs_base and await self._thread.is_current(in_place=in_place)

    def load_all(self, limit: int | None = None) -> list[LoadedCheckpoint]:
        """Read all checkpoints, newest first. Each costs as much as it changed."""
        bodies = self._thread.owned(self._owner)
        found: list[LoadedCheckpoint] = []
        unwanted = 0 if limit is None else max(0, len(bodies) - limit)
        fold, values = CheckpointFold(self.thread_id), None
        with undamaged(self.thread_id):
            for index, seq in enumerate(sorted(bodies)):
                if not fold.take_next(bodies[seq]):  # a branch, or a new base
                    fold, values = CheckpointFold(self.thread_id, chain(bodies, seq)), None
                if index >= unwanted:
                    if values is not None:
                        values = self._next_values(values, fold)
                    found.append(self._loaded(fold, values))
                    values = None if found[-1].refusal is not None else found[-1].position.values
        return found[::-1]

    @property
    def count(self) -> int:
        """The number of checkpoints that were read."""
        return len(self._thread.owned(self._owner))

    @property
    def is_newest(self) -> bool:
        """Whether the current checkpoint is the newest of the thread."""
        return self.head > 0 and self.head == max(self._thread.owned(self._owner), default=0)

    def is_branch_of(self, checkpoint: int) -> bool:
        """Whether the newest checkpoint is a branch from this one on which nothing has run yet."""
        bodies = self._thread.owned(self._owner)
        body = parsed(bodies[max(bodies)]) if bodies else {}
        return body.get("source") == "branch" and body.get("parent") == checkpoint

    def _next_values(self, values: StateValues, fold: CheckpointFold) -> StateValues | None:
        """Return the values of the next checkpoint; None if they have to be read from the base."""
        if fold.version != self._definition.version:
            return None
        try:
            return self._code.next_values(values, fold.stored, fold.body)
        except CheckpointError:
            return None

    def _loaded(
        self, fold: CheckpointFold, values: StateValues | None = None, frontier: Frontier | None = None
    ) -> LoadedCheckpoint:
        """`values`, `frontier`: if they are known already."""
        entry, body, code, version = fold.entry, fold.body, self._code, fold.version
        read = code.values(fold.stored, version) if values is None else ReadValues(values, self._migration)
        self._migration = read.migration
        renamed: dict[str, str] = {}
        if frontier is None:
            frontier, renamed = code.frontier(body, read.migration, version, is_old=fold.format < 2)
        pending = self._pending(entry.seq, renamed, read.migration, version)
        spent = pending.spent or fold.spent
        return LoadedCheckpoint(
            checkpoint=entry.seq,
            parent=body.get("parent"),
            position=Position(read.values, frontier, int(body["step"])),
            source=body["source"],
            run_id=fold.run_id,
            at=entry.at,
            last_event=max(fold.last_event, pending.last_event),
            visits=self._visits(fold),
            pending=pending,
            outer=OuterWrites(frozenset(fold.wrote), code.read_writes(fold.out)),
            refusal=read.refusal or pending.refusal,
            stored=plain_values(fold.stored) if read.refusal is not None else None,
            renamed=renamed,
            settled=tuple(fold.answered),
            counted_from=int(body["step"]) if pending.answers else fold.counted_from,
            spent=None if spent is None else from_plain(Spent, spent),
        )

    def _visits(self, fold: CheckpointFold) -> Counter[str]:
        """Count the visits to nodes, by the names of this program."""
        visits = Counter[str]()
        for node, count in fold.visits.items():
            visits[self._definition.renamed(node, fold.version)] += count
        return visits

    def _pending(
        self, checkpoint: int, renamed: Mapping[str, str], migration: MigratedState | None, version: int
    ) -> PendingEntries:
        """Return what is pending on a checkpoint; each stored result is decoded once."""
        owner = self._pending_owner(checkpoint)
        if renamed:
            pending = PendingEntries(owner, self._thread.owned(owner).values(), renamed)
        else:
            pending = self._thread.pending(owner)
        while pending.unread:
            task, stored = pending.unread.popitem()
            try:
                pending.results[task] = self._code.read_result(stored, migration, version)
            except CheckpointError as error:
                pending.refusal = error
        # The outermost graph may have questions in inner graphs: `leave_waiting` sets its waiting tasks.
        pending.waiting, pending.just_answered = dict(pending.asked) if self._owner else {}, frozenset()
        return pending

    def answered(self, loaded: LoadedCheckpoint) -> tuple[Answered, ...]:
        """Return the questions answered up to and on a checkpoint."""
        pending = self._thread.answered(self._pending_owner(loaded.checkpoint))
        return (*map(read_answered, loaded.settled), *pending)

    async def migrate(self, loaded: LoadedCheckpoint) -> LoadedCheckpoint:
        """Write a checkpoint of an older version again, with its pending notes and the node names of this
        version, and move to it. The old one is not changed.
        """
        body = self._body(loaded.position, source="migration", run_id=loaded.run_id, is_whole=True)
        body["moment"] = self._fold.moment
        if loaded.visits:
            body["ran"] = dict(loaded.visits)
        if self._thread.once:
            body["once"] = self._thread.once
        if loaded.settled and not self._owner:
            body["answered"] = loaded.settled
        if self._owner:
            out = loaded.outer
            body |= {"wrote": sorted(out.keys), "out": self._code.writes(out.writes)}
        owner = self._pending_owner(self.head)
        pending = [self._migrated(entry, owner, loaded) for entry in self._thread.below(owner)]
        pending += self._spent_elsewhere()
        values = self._code.all_values(Folded(loaded.position.values, {}))
        # An inner graph has no branches: the notes move from its old checkpoint to the new one.
        await self._write_checkpoint(body, values, pending=pending, settles=owner if self._owner else None)
        found = self.load()
        assert found is not None, "it was written just now"
        return found

    def _migrated(self, entry: ThreadEntry, owner: str, loaded: LoadedCheckpoint) -> ThreadEntry:
        """Return a pending entry with the node names of this version."""
        ids = loaded.renamed
        if entry.owner != owner:
            path = entry.owner.removeprefix(f"{owner}/").split("/")
            path[0] = quoted(ids.get(unquoted(path[0]), unquoted(path[0])))
            return replace(entry, owner="/".join([owner, *path]))
        body = parsed(entry)
        if "task" not in body:
            return entry
        task = body["task"] = ids.get(body["task"], body["task"])
        if "node" in body:
            body["node"] = self._definition.renamed(body["node"], self._fold.version)
        if task in loaded.pending.results and not body.keys() & _OTHER_NOTES:
            node = loaded.position.frontier.by_id[task].node
            body = {"task": task, **self._code.result(node, loaded.pending.results[task])}
        return replace(entry, body=dump_json(body))

    def open_questions(self, loaded: LoadedCheckpoint) -> OpenQuestions:
        """Return the open questions on a checkpoint, at any depth, in the order of their tasks."""
        with undamaged(self.thread_id):
            questions = self._thread.questions(self._pending_owner(loaded.checkpoint))
        found, planned = questions.by_task, loaded.position.frontier.by_id
        tasks = [*filter(found.__contains__, planned)]
        if len(tasks) < len(found):  # some had other names
            tasks = [*(task for task in found if task not in planned), *tasks]
        return questions if tasks == [*found] else OpenQuestions.of({task: found[task] for task in tasks})

    async def copy_to(self, thread_id: str, checkpoint: int) -> None:
        """Copy a checkpoint to a new thread, with its ancestors, its pending notes and all records of calls
        with `effect="once"`.
        """
        entries = self._thread.owned(self._owner)
        kept: list[ThreadEntry] = []
        number: int | None = checkpoint
        while number is not None and number in entries:
            kept.append(entries[number])
            number = parsed(entries[number]).get("parent")
        if self._thread.once:
            body = parsed(kept[0]) | {"once": self._thread.once}
            kept[0] = replace(kept[0], body=dump_json(body))
        pending = self._thread.below(self._pending_owner(checkpoint))
        await self._thread.copy(thread_id, [*kept[::-1], *moved(pending, checkpoint, checkpoint)])


def _without_time(spent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in spent.items() if name != "seconds"}
