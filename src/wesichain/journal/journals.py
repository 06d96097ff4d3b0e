"""`Journals`: a store of logs, and what is done with the runs in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from wesichain.core import JsonValue, Part, to_json
from wesichain.core.internal import (
    CancellationToken,
    Clock,
    Decision,
    SystemClock,
    Value,
    parse_json,
    running_loop,
)
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    RunEndedError,
    RunIdConflictError,
    RunInterruptedError,
)
from wesichain.policy import Budget
from wesichain.store.entries import Entry, LogConflictError, LogInfo, Logs, Query, Summary

from .answers import checked_answer
from .entries import Answer, Asked, Go, Say, Stop
from .frame import Frame, checked_run_id
from .functions import Ended, FunctionProgram, Pending, Waiting, outcome_in, pending_of
from .host import writer_id
from .journal import Journal
from .log import Log
from .names import parse
from .results import result_reader
from .sealing import Cipher, sealed
from .voiding import voids_of
from .writer import StoreWriter
from .written import entry_for, read_log

T = TypeVar("T")
P = ParamSpec("P")
Given: TypeAlias = JsonValue | Decision

_POLL = 0.05  # seconds between two looks at a run that another process works on, at first
_MOST_POLL = 1.0


class RunRow(Value):
    """A row in a list of runs. `pending` is what a waiting run waits for."""

    run_id: str
    program: str
    state: str
    at: float
    begun_at: float
    cost: float = 0.0
    task: str = ""
    by: str = ""
    pending: tuple[Pending, ...] = ()


class Journals:
    """Runs and their logs, over a store: `MemoryJournals()`, `SqliteJournals(path)` and others.

    A run is known by its id. Calling the same line again continues it, or returns what it had returned.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        cipher: Cipher | None = None,
        clock: Clock | None = None,
        lease: float = 5.0,
    ) -> None:
        """`cipher` encrypts what is stored. `lease`: seconds after which a process that is silent is dead."""
        self.logs = logs
        self._cipher = cipher
        self._clock = clock or SystemClock()
        self._lease = lease
        self._active: dict[str, _Active] = {}  # the runs that this process works on
        self._alive: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what the store holds open. It is opened again if it is used again."""
        for task in self._alive.values():
            task.cancel()
        self._alive.clear()
        await self.logs.close()

    # --- functions -------------------------------------------------------------------------------

    async def run(
        self,
        function: Callable[Concatenate[Journal, P], Awaitable[T] | T],
        *args: Any,
        run_id: str,
        by: str | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> T:
        """Run a function, or continue its run; return its value.

        The function takes a `Journal` first. A finished run's value is returned, and nothing runs; a failed
        one raises its error again, until `resume(run_id)`. A run that waits for a person or a signal raises
        `RunInterruptedError` with `outcome.pending`; for a moment, this waits.
        """
        program = FunctionProgram(function, args, kwargs, by=by, budget=budget)
        while True:
            async with self.writing(checked_run_id(run_id)) as opened:
                found = await self._leg(program, opened)
            if isinstance(found, Ended):
                return found.value  # type: ignore[no-any-return]  # as the log gives it back
            if not found.is_due_only:
                names = ", ".join(f"{one.kind} {one.name!r}" for one in found.pending)
                waits = f"it waits for {names}" if names else found.reason
                raise RunInterruptedError(f"the run {run_id!r} was interrupted: {waits}", found)
            await self._until_due(found)

    async def _leg(self, program: FunctionProgram, opened: OpenedLog) -> Ended | Waiting:
        log = opened.log
        begin = log.begin_of("")
        if begin is not None:
            program.check(begin, log.run_id)
            known = outcome_in(log)
            if isinstance(known, Ended):
                return known
            if isinstance(known, Waiting) and not await self._may_continue(log, known):
                return known
        return await program.leg(log, self.logs.now, opened.token)

    async def _may_continue(self, log: Log, waiting: Waiting) -> bool:
        """Whether something has come that a run waited for, or its moment is there."""
        if not waiting.pending:
            return False  # it was stopped
        due = waiting.due
        if due is not None and await self.logs.now() >= due:
            return True
        for one in waiting.pending:
            if one.kind == "signal" and Frame.has_signal(log, one.name):
                return True
            if one.token and log.has_answer(one.token):
                return True
        return False

    async def _until_due(self, waiting: Waiting) -> None:
        assert waiting.due is not None, "it waits for nothing but moments"
        await self._clock.sleep(max(0.0, waiting.due - await self.logs.now()))

    # --- opening ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def writing(self, run_id: str, *, clock: Clock | None = None) -> AsyncGenerator[OpenedLog]:
        """The log of a run, for this process to work on. Waits while another one does."""
        opened = await self._open_for_writing(run_id, clock or self._clock)
        try:
            yield opened
        finally:
            try:
                if not opened.is_lost:
                    await _uncut(opened.log.flush())
            finally:
                self._active.pop(run_id, None)
                opened.closed()

    async def _open_for_writing(self, run_id: str, clock: Clock) -> OpenedLog:
        poll = _POLL
        while True:
            active = self._active.get(run_id)
            if active is not None:
                await active.wait()
                continue
            self._active[run_id] = mine = _Active()
            try:
                entries = await self.logs.read(run_id)
                holder = _holder(entries, self._cipher)
                seconds = 0.0
                if holder not in ("", writer_id()):
                    seconds = await self.logs.lease(_lease_of(holder), writer_id(), 0.0)
                if seconds <= 0:
                    await self._stay_alive()
                    return mine.open(run_id, clock, self.logs, entries, self._cipher)
            except BaseException:
                self._active.pop(run_id, None)
                mine.end()
                raise
            self._active.pop(run_id, None)
            mine.end()
            await asyncio.sleep(min(poll, seconds))
            poll = min(poll * 2, _MOST_POLL)

    async def _stay_alive(self) -> None:
        """Take the lease of this process, and renew it while its event loop runs."""
        loop = asyncio.get_running_loop()
        task = self._alive.get(loop)
        if task is not None and not task.done():
            return
        await self.logs.lease(_lease_of(writer_id()), writer_id(), self._lease)
        self._alive = {one: kept for one, kept in self._alive.items() if not one.is_closed()}
        self._alive[loop] = loop.create_task(self._renew())

    async def _renew(self) -> None:
        """Renew the lease, and look for what has come for the runs that this process works on."""
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self.logs.lease(_lease_of(writer_id()), writer_id(), self._lease)
                for active in [*self._active.values()]:
                    await active.look()
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001  # the store is away: the appends of the runs will say so
                continue

    async def open(self, run_id: str) -> Journal:
        """The log of a run, for reading."""
        log = await self.read(run_id)
        return Journal(Frame(log, account=_no_account(), now=self.logs.now))

    async def read(self, run_id: str) -> Log:
        """The log of a run as it is stored now. An unknown run is a `ConfigError`."""
        entries = await self.logs.read(checked_run_id(run_id))
        if not entries:
            raise ConfigError(f"there is no run {run_id!r} in these journals; list() shows those there are")
        log = Log(run_id, self._clock)
        read_log(log, entries, self._cipher)
        return log

    # --- what enters from outside ------------------------------------------------------------------

    async def answer(self, run_id: str, answers: Mapping[str, Given], *, by: str | None = None) -> None:
        """Answer questions of a run, by their names or tokens: all that are given, or none.

        An answer to a question about a call is a decision: `Approve()`, `Refuse(reason)` and others.
        """
        if not isinstance(answers, Mapping) or not answers:
            raise ConfigError(f"answers={answers!r}: give each answer for its name or token")

        def entries(log: Log) -> Sequence[tuple[str, Any]]:
            return [self._answer(log, key, given, by) for key, given in answers.items()]

        await self._enter(run_id, entries)

    def _answer(self, log: Log, key: str, given: Given, by: str | None) -> tuple[str, Answer]:
        """The entry of an answer, after its checks."""
        asked = _question(log, key)
        answer = checked_answer(asked, given, by or "", now=self._clock.time())
        return log.answer_name(asked.token), answer

    async def signal(
        self,
        run_id: str,
        name: str,
        value: JsonValue = None,
        *,
        by: str | None = None,
        id: str | None = None,
    ) -> None:
        """Send a signal to a run, which takes it with `receive(name)`. The same `id` is the same signal."""
        say = Say(signal=name, value=_plain(value, f"the signal {name!r}"), by=by or "")
        await self._enter_once(run_id, f"say {id or token_hex(8)}", say)

    async def say(
        self,
        run_id: str,
        text: str | Sequence[str | Part],
        *,
        by: str | None = None,
        when: str = "next",
        place: str | None = None,
        id: str | None = None,
    ) -> None:
        """Say something to an agent of a run. The same `id` is the same message."""
        from .mailbox import message  # loaded with the first message

        say = message(text, by=by, when=when, place=place)
        await self._enter_once(run_id, f"say {id or token_hex(8)}", say, place=place)

    async def stop(self, run_id: str, reason: str = "stopped", *, by: str | None = None) -> None:
        """Ask a run to stop; it can be resumed."""
        log = await self.read(run_id)
        number = 1 + len(log.numbers_of("stop "))
        await self._enter_once(run_id, f"stop {number}", Stop(reason, by or ""))

    async def resume(self, run_id: str) -> None:
        """Let a run go on that was stopped, or has failed: what had failed is done again."""

        def entries(log: Log) -> Sequence[tuple[str, Any]]:
            return [(f"go {log.leg}", Go("", voids=voids_of(log)))]

        await self._enter(run_id, entries, may_have_ended=True)

    async def _enter_once(self, run_id: str, name: str, body: Any, *, place: str | None = None) -> None:
        """Append an entry, unless the log has one of this name."""

        def entries(log: Log) -> Sequence[tuple[str, Any]]:
            if place is not None:
                from .mailbox import check_place

                check_place(log, place)
            return [] if log.has(name) else [(name, body)]

        await self._enter(run_id, entries)

    async def _enter(
        self,
        run_id: str,
        make: Callable[[Log], Sequence[tuple[str, Any]]],
        *,
        may_have_ended: bool = False,
    ) -> None:
        """Append entries from outside, and wake the run."""
        while True:
            log = await self.read(run_id)
            if not may_have_ended and log.has("end"):
                raise RunEndedError(f"the run {run_id!r} has ended, and takes nothing more", run_id=run_id)
            seq, at = log.entries_in(len(log.records)), self._clock.time()
            new = [entry_for(name, body, seq + place, at) for place, (name, body) in enumerate(make(log), 1)]
            if not new:
                return
            if self._cipher is not None:
                new = [sealed(entry, self._cipher) for entry in new]
            try:
                await self.logs.append(run_id, new, after=seq)
            except LogConflictError:
                continue
            active = self._active.get(run_id)
            if active is not None:
                await active.look()
            return

    # --- results ---------------------------------------------------------------------------------

    async def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Wait for the end of a run: a function's value, an agent's `RunResult`, a graph's state.

        Raises the error of a run that has failed, and `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            poll = _POLL
            while True:
                entries = await self.logs.read(checked_run_id(run_id))
                if any(entry.name == "end" for entry in entries[-3:]):
                    log = Log(run_id, self._clock)
                    read_log(log, entries, self._cipher)
                    begin = log.begin_of("")
                    if begin is not None and begin.kind_of != "function":
                        return result_reader(begin.kind_of)(log)
                    found = outcome_in(log)
                    assert isinstance(found, Ended), "the log has an end"
                    return found.value
                await asyncio.sleep(poll)
                poll = min(poll * 1.5, _MOST_POLL)

    # --- lists -----------------------------------------------------------------------------------

    async def list(
        self,
        state: str | None = None,
        program: str | None = None,
        waiting: bool | None = None,
        *,
        limit: int = 100,
        after: RunRow | None = None,
    ) -> list[RunRow]:
        """The runs, the latest first. `after` is the last row of the page before."""
        page = None if after is None else (after.at, after.run_id)
        query = Query(state=state, program=program, waiting=waiting, limit=limit, after=page)
        return [_row(info) for info in await self.logs.list(query)]

    async def stats(self) -> dict[str, int]:
        """The number of runs in each state."""
        counts: dict[str, int] = {}
        after: RunRow | None = None
        while page := await self.list(limit=1_000, after=after):
            for row in page:
                counts[row.state] = counts.get(row.state, 0) + 1
            after = page[-1]
        return counts

    # --- keeping and removing ------------------------------------------------------------------------

    async def fork(self, run_id: str, to: str, *, before: str) -> None:
        """Copy the entries of a run before the one named `before` to a new run, which goes on from there."""
        entries = await self.logs.read(checked_run_id(run_id))
        kept = list(itertools.takewhile(lambda entry: entry.name != before, entries))
        if len(kept) == len(entries):
            raise ConfigError(
                f"the run {run_id!r} has no entry {before!r}; open(run_id).entries() shows them"
            )
        await self._copy(kept, to, self)

    async def move(self, run_id: str, other: Journals) -> None:
        """Move a run that waits or has ended to other journals."""
        await self._check_idle(run_id)
        entries = await self.logs.read(run_id)
        await self._copy(entries, run_id, other)
        if not await self.logs.delete(run_id, seq=entries[-1].seq):
            await other.logs.delete(run_id)
            raise JournalConflictError(
                f"the run {run_id!r} has gone on while it was moved; it stays where it was", run_id=run_id
            )

    async def _copy(self, entries: Sequence[Entry], to: str, other: Journals) -> None:
        if await other.logs.read(checked_run_id(to)):
            raise RunIdConflictError(f"there is a run {to!r} already; use another id")
        if not entries:
            raise ConfigError("there is nothing before this entry; begin the run anew")
        log = Log(to, self._clock)
        read_log(log, entries, self._cipher)
        log.reopened()
        writer = StoreWriter(log, other.logs, after=0, cipher=other._cipher)
        await writer.copy(entries, opened_with=self._cipher)

    async def delete(self, run_id: str) -> None:
        """Delete a run. One that a living process works on is refused."""
        seq = await self._check_idle(run_id)
        if not await self.logs.delete(run_id, seq=seq):
            raise JournalConflictError(f"the run {run_id!r} has gone on; it was not deleted", run_id=run_id)

    async def prune(self, older_than: float) -> int:
        """Delete the ended runs whose last entry is older than so many seconds; return how many."""
        until, deleted = await self.logs.now() - older_than, 0
        for state in ("completed", "failed"):
            after: tuple[float, str] | None = (until, "")
            while page := await self.logs.list(Query(state=state, limit=1_000, after=after)):
                deleted += await self.logs.delete_many({info.name: info.seq for info in page})
                after = (page[-1].at, page[-1].name)
        return deleted

    async def _check_idle(self, run_id: str) -> int:
        """The number of the last entry of a run that nobody works on."""
        entries = await self.logs.read(checked_run_id(run_id))
        if not entries:
            raise ConfigError(f"there is no run {run_id!r} in these journals; list() shows those there are")
        holder = _holder(entries, self._cipher)
        is_here = run_id in self._active
        if is_here or (
            holder not in ("", writer_id()) and await self.logs.lease(_lease_of(holder), writer_id(), 0.0) > 0
        ):
            raise JournalConflictError(
                f"a living process works on the run {run_id!r}; stop it first: journals.stop(run_id)",
                run_id=run_id,
            )
        return entries[-1].seq

    # --- the same for code that is not async ---------------------------------------------------------

    def run_sync(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Synchronous version of `run()`."""
        return _wait_for(self.run(function, *args, **options))

    def answer_sync(self, run_id: str, answers: Mapping[str, Given], *, by: str | None = None) -> None:
        """Synchronous version of `answer()`."""
        _wait_for(self.answer(run_id, answers, by=by))

    def signal_sync(self, run_id: str, name: str, value: JsonValue = None, **options: Any) -> None:
        """Synchronous version of `signal()`."""
        _wait_for(self.signal(run_id, name, value, **options))

    def say_sync(self, run_id: str, text: Any, **options: Any) -> None:
        """Synchronous version of `say()`."""
        _wait_for(self.say(run_id, text, **options))

    def stop_sync(self, run_id: str, reason: str = "stopped", *, by: str | None = None) -> None:
        """Synchronous version of `stop()`."""
        _wait_for(self.stop(run_id, reason, by=by))

    def resume_sync(self, run_id: str) -> None:
        """Synchronous version of `resume()`."""
        _wait_for(self.resume(run_id))

    def result_sync(self, run_id: str, timeout: float | None = None) -> Any:
        """Synchronous version of `result()`."""
        return _wait_for(self.result(run_id, timeout))

    def list_sync(self, *args: Any, **options: Any) -> list[RunRow]:
        """Synchronous version of `list()`."""
        return _wait_for(self.list(*args, **options))

    def open_sync(self, run_id: str) -> Journal:
        """Synchronous version of `open()`."""
        return _wait_for(self.open(run_id))

    def fork_sync(self, run_id: str, to: str, *, before: str) -> None:
        """Synchronous version of `fork()`."""
        _wait_for(self.fork(run_id, to, before=before))

    def move_sync(self, run_id: str, other: Journals) -> None:
        """Synchronous version of `move()`."""
        _wait_for(self.move(run_id, other))

    def delete_sync(self, run_id: str) -> None:
        """Synchronous version of `delete()`."""
        _wait_for(self.delete(run_id))

    def prune_sync(self, older_than: float) -> int:
        """Synchronous version of `prune()`."""
        return _wait_for(self.prune(older_than))


class OpenedLog:
    """A log that this process works on, and the token that stops the work."""

    def __init__(self, log: Log, active: _Active, token: CancellationToken) -> None:
        self.log = log
        self.token = token
        self.is_lost = False  # another process has taken the run over
        self._active = active

    def closed(self) -> None:
        self._active.end()


class _Active:
    """A run that this process works on."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._writer: StoreWriter | None = None
        self._opened: OpenedLog | None = None

    def open(
        self, run_id: str, clock: Clock, logs: Logs, entries: Sequence[Entry], cipher: Cipher | None
    ) -> OpenedLog:
        log = Log(run_id, clock)
        read_log(log, entries, cipher)
        writer = StoreWriter(log, logs, after=entries[-1].seq if entries else 0, cipher=cipher)
        log.writer = self._writer = writer
        token = CancellationToken()
        opened = self._opened = OpenedLog(log, self, token)
        writer.outside.listen(
            lambda name, body: token.cancel(body.reason) if name.startswith("stop ") else None
        )
        return opened

    async def look(self) -> None:
        """Read what has come from outside."""
        if self._writer is None or self._opened is None or self._opened.is_lost:
            return
        try:
            await self._writer.look()
        except JournalConflictError as error:
            self._opened.is_lost = True
            self._opened.token.cancel(str(error))

    async def wait(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


def _holder(entries: Sequence[Entry], cipher: Cipher | None) -> str:
    """The process that works on a run, by its last entries; "" if nobody does."""
    from .written import entry_body

    for entry in reversed(entries):
        kind = parse(entry.name).kind
        if kind == "left" and not parse(entry.name).place:
            return ""
        if entry.name == "end":
            return ""
        if entry.name.startswith("go "):
            go: Go = entry_body(entry, cipher)
            return go.writer
    return ""


def _lease_of(writer: str) -> str:
    return f"writer/{writer}"


def _question(log: Log, key: str) -> Asked:
    """The open question with a token or a name."""
    waiting = [*log.questions()]
    found = [asked for asked in waiting if key == asked.token or (asked.name and key == asked.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{len(found)} questions are called {key!r}; answer by their tokens")
    if any(key in (asked.token, asked.name) for asked in log.all_questions()):
        raise ConfigError(f"the question {key!r} was answered already; an answer is taken once")
    names = ", ".join(repr(asked.name or asked.token) for asked in waiting) or "nothing"
    raise ConfigError(
        f"the run {log.run_id!r} asks nothing with the name or token {key!r}; it waits for {names}"
    )


def _row(info: LogInfo) -> RunRow:
    summary: Summary = info.summary
    waits: Any = parse_json(summary.pending) if summary.pending else []
    return RunRow(
        info.name,
        summary.program,
        summary.state,
        info.at,
        info.begun_at,
        summary.cost,
        summary.task,
        summary.by,
        tuple(map(pending_of, waits)),
    )


def _plain(value: Any, what: str) -> Any:
    try:
        return parse_json(to_json(value))
    except CodecError as error:
        raise ConfigError(f"the value of {what} cannot be stored: {error}; pass JSON data") from error


def _no_account() -> Any:
    from wesichain.policy.internal import Account

    return Account(Budget())


async def _uncut(work: Awaitable[Any]) -> None:
    """Await work to its end, though the waiting task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    if running_loop() is not None:
        work.close()
        raise ConfigError(
            "a ..._sync() method was called inside a running event loop; await the other one there"
        )
    return asyncio.run(work)
