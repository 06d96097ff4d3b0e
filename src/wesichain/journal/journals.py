"""`Journals`: a store of logs, and what is done with the runs in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from wesichain.core import JsonValue, Part, to_json
from wesichain.core.internal import Clock, Decision, SystemClock, Value, parse_json, running_loop
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    RunEndedError,
    RunIdConflictError,
    RunInterruptedError,
)
from wesichain.policy import Budget
from wesichain.policy.internal import Account
from wesichain.store.entries import Entry, LogConflictError, LogInfo, Logs, Query, Summary

from .answers import checked_answer
from .entries import Answer, Asked, Go, Left, Say, Stop
from .frame import Frame
from .functions import Ended, FunctionProgram, left_in, stop_in, value_in
from .journal import Journal
from .log import Log
from .mailbox import message, place_of_agent, waiting_signal
from .opening import OpenedLog, Working
from .results import result_reader
from .sealing import Cipher, sealed
from .voiding import voids_of
from .waiting import Pending, Waiting, next_moment, pending_in, pending_of, waits_for_time
from .writer import StoreWriter, SummaryFold
from .written import entry_for, read_log

T = TypeVar("T")
P = ParamSpec("P")
Given: TypeAlias = JsonValue | Decision
Entering: TypeAlias = Sequence[tuple[str, Value]]  # names and bodies

_POLL = 0.05  # seconds between two looks for the end of a run, at first
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
        self._working = Working(logs, self._clock, cipher, lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what the store holds open. It is opened again if it is used again."""
        self._working.close()
        await self.logs.close()

    # --- running ---------------------------------------------------------------------------------

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
            async with self.writing(run_id) as opened:
                found = await self.leg(program, opened)
            if isinstance(found, Ended):
                return found.value  # type: ignore[no-any-return]  # as the log gives it back
            if not await self.wait_until_due(found.pending):
                raise _interrupted(found)

    async def leg(self, program: FunctionProgram, opened: OpenedLog) -> Ended | Waiting:
        """Work on a function's run to its end, or until it waits; one that still waits is left as it is."""
        log = opened.log
        begin = log.begin_of("")
        if begin is not None:
            program.check(begin, log.run_id)
            if log.has("end"):
                return Ended(value_in(log))
            waiting = await self.waiting_in(log)
            if waiting is not None:
                return waiting
        return await program.leg(log, opened.token)

    def writing(self, run_id: str, *, clock: Clock | None = None) -> Any:
        """The log of a run, for this process to work on: `async with`. Waits while another one does."""
        return self._working.writing(checked_run_id(run_id), clock=clock)

    async def waiting_in(self, log: Log) -> Waiting | None:
        """What a run waits for, or that it was stopped; None for one that can go on."""
        stopped = stop_in(log)
        if stopped is not None:
            return Waiting(log.run_id, stopped)
        left = left_in(log)
        if left is None or not left.waits:
            return None
        waits = tuple(map(pending_of, left.waits))
        if await self._may_go_on(log, waits):
            return None
        return Waiting(log.run_id, left.reason, waits)

    async def _may_go_on(self, log: Log, waits: Sequence[Pending]) -> bool:
        """Whether something has come that a run waits for, or its moment is there."""
        for one in waits:
            if one.token and log.has_answer(one.token):
                return True
            if one.kind == "signal" and waiting_signal(log, one.name) is not None:
                return True
        if any(log.body(number).place is not None for _, number in log.said()):
            pass
        due = next_moment(waits)
        return due is not None and await self.logs.now() >= due

    async def wait_until_due(self, pending: Sequence[Pending]) -> bool:
        """Wait for the moment at which a run goes on; False, at once, if it waits for something else too."""
        due = next_moment(pending)
        if due is None or not waits_for_time(pending):
            return False
        await self._clock.sleep(max(0.0, due - await self.logs.now()))
        return True

    async def open(self, run_id: str) -> Journal:
        """The log of a run, for reading."""
        return Journal(Frame(await self.read(run_id), Account(Budget())))

    async def read(self, run_id: str) -> Log:
        """The log of a run as it is stored now. An unknown run is a `ConfigError`."""
        return self._log(run_id, await self._entries(run_id))

    async def _entries(self, run_id: str) -> Sequence[Entry]:
        """The entries of a run, of which there are some."""
        entries = await self.logs.read(checked_run_id(run_id))
        if not entries:
            raise ConfigError(f"there is no run {run_id!r} in these journals; list() shows those there are")
        return entries

    def _log(self, run_id: str, entries: Sequence[Entry]) -> Log:
        log = Log(run_id, self._clock)
        read_log(log, entries, self._cipher)
        return log

    # --- what enters from outside ----------------------------------------------------------------

    async def answer(self, run_id: str, answers: Mapping[str, Given], *, by: str | None = None) -> None:
        """Answer questions of a run, by their names or tokens: all that are given, or none.

        An answer to a question about a call is a decision: `Approve()`, `Refuse(reason)` and others.
        """
        given: Any = answers
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(f"answers={answers!r}: give each answer for its name or token")

        def entries(log: Log) -> Entering:
            return [self._answer(log, key, one, by) for key, one in answers.items()]

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
        try:
            plain = parse_json(to_json(value))
        except CodecError as error:
            raise ConfigError(
                f"the value of the signal {name!r} cannot be stored: {error}; pass JSON data"
            ) from error
        entry, say = f"say {id or token_hex(8)}", Say(signal=name, value=plain, by=by or "")
        await self._enter(run_id, lambda log: _once(log, entry, say))

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
        entry = f"say {id or token_hex(8)}"

        def entries(log: Log) -> Entering:
            return _once(log, entry, message(text, by=by, when=when, place=place_of_agent(log, place)))

        await self._enter(run_id, entries)

    async def stop(self, run_id: str, reason: str = "stopped", *, by: str | None = None) -> None:
        """Ask a run to stop; it can be resumed."""
        is_held = await self._working.held_for(await self._entries(run_id)) > 0
        is_held = is_held or self._working.find(run_id) is not None

        def entries(log: Log) -> Entering:
            if stop_in(log) is not None:
                return ()
            number = 1 + len(log.numbers_of("stop "))
            found: list[tuple[str, Value]] = [(f"stop {number}", Stop(reason, by or ""))]
            if not is_held and left_in(log) is None:  # its process is gone
                found.append((f"left {log.leg - 1}", Left(reason)))
            return found

        await self._enter(run_id, entries)

    async def resume(self, run_id: str, *, by: str | None = None) -> None:
        """Let a run go on that was stopped, or has failed: what had failed is done again."""
        del by
        await self._check_idle(run_id, "resume")

        def entries(log: Log) -> Entering:
            if not log.has("end") and stop_in(log) is None:
                raise ConfigError(f"the run {run_id!r} was not stopped and has not failed; it goes on by itself")
            if log.has("end") and not voids_of(log):
                raise RunEndedError(f"the run {run_id!r} has completed", run_id=run_id)
            return [(f"go {log.leg}", Go("", voids=voids_of(log)))]

        await self._enter(run_id, entries, may_have_ended=True)

    async def _enter(
        self, run_id: str, make: Callable[[Log], Entering], *, may_have_ended: bool = False
    ) -> None:
        """Append entries from outside, and wake the run."""
        while True:
            stored = await self._entries(run_id)
            log = self._log(run_id, stored)
            if not may_have_ended and log.has("end"):
                raise RunEndedError(f"the run {run_id!r} has ended, and takes nothing more", run_id=run_id)
            summary = SummaryFold(log)
            summary.changed()
            seq, at, new = stored[-1].seq, self._clock.time(), list[Entry]()
            for number, (name, body) in enumerate(make(log), seq + 1):
                entry = entry_for(name, body, number, at)
                new.append(entry if self._cipher is None else sealed(entry, self._cipher))
                log.enter(name, body)
            if not new:
                return
            try:
                await self.logs.append(run_id, new, after=seq, summary=summary.changed())
            except LogConflictError:
                continue
            here = self._working.find(run_id)
            if here is not None:
                await here.look()
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
                if any(entry.name == "end" for entry in entries):
                    log = self._log(run_id, entries)
                    if log.has("end"):
                        return _result_in(log)
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

    # --- keeping and removing --------------------------------------------------------------------

    async def fork(self, run_id: str, to: str, *, before: str) -> None:
        """Copy the entries of a run before the one named `before` to a new run, which goes on from there."""
        entries = await self._entries(run_id)
        kept = list(itertools.takewhile(lambda entry: entry.name != before, entries))
        if len(kept) == len(entries):
            raise ConfigError(
                f"the run {run_id!r} has no entry {before!r}; open(run_id).entries() shows them"
            )
        await self._copy(kept, to, self)

    async def move(self, run_id: str, other: Journals) -> None:
        """Move a run that waits or has ended to other journals."""
        await self._check_idle(run_id, "move")
        entries = await self._entries(run_id)
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
        writer = StoreWriter(self._log(to, entries), other.logs, after=0, cipher=other._cipher)
        await writer.copy(entries, opened_with=self._cipher)

    async def delete(self, run_id: str) -> None:
        """Delete a run. One that a living process works on is refused."""
        seq = await self._check_idle(run_id, "delete")
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

    async def _check_idle(self, run_id: str, verb: str) -> int:
        """The number of the last entry of a run that nobody works on."""
        entries = await self._entries(run_id)
        if self._working.find(run_id) is not None or await self._working.held_for(entries) > 0:
            raise JournalConflictError(
                f"a living process works on the run {run_id!r}; before you {verb} it, stop it: "
                f"journals.stop(run_id)",
                run_id=run_id,
            )
        return entries[-1].seq

    # --- the same for code that is not async -----------------------------------------------------

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

    def resume_sync(self, run_id: str, *, by: str | None = None) -> None:
        """Synchronous version of `resume()`."""
        _wait_for(self.resume(run_id, by=by))

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


def checked_run_id(run_id: Any) -> str:
    """A run id, or a `ConfigError`."""
    if not isinstance(run_id, str) or not run_id:
        raise ConfigError(f"run_id={run_id!r}: a run is named by a text of its own")
    return run_id


def _interrupted(waiting: Waiting) -> RunInterruptedError:
    names = ", ".join(f"{one.kind} {one.name!r}" for one in waiting.pending)
    why = f"it waits for {names}" if names else waiting.reason
    return RunInterruptedError(f"the run {waiting.run_id!r} was interrupted: {why}", waiting)


def _result_in(log: Log) -> Any:
    """The result of a run that has ended."""
    begin = log.begin_of("")
    if begin is None or begin.kind_of == "function":
        return value_in(log)
    return result_reader(begin.kind_of)(log)


def _once(log: Log, name: str, body: Value) -> Entering:
    """An entry, unless the log has one of this name."""
    return () if log.has(name) else [(name, body)]


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
    return RunRow(
        info.name,
        summary.program,
        summary.state,
        info.at,
        info.begun_at,
        summary.cost,
        summary.task,
        summary.by,
        pending_in(summary.pending),
    )


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    if running_loop() is not None:
        work.close()
        raise ConfigError(
            "a ..._sync() method was called inside a running event loop; await the other one there"
        )
    return asyncio.run(work)
