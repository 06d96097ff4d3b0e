"""`Journals`: a store of logs, and what is done with the runs in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

from wesichain.core import JsonValue, Part, to_json
from wesichain.core.internal import Clock, Decision, SystemClock, Value, parse_json, replace, running_loop
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    RunEndedError,
    RunIdConflictError,
    RunInterruptedError,
)
from wesichain.policy import Budget
from wesichain.store import Entry, LogConflictError, LogInfo, Logs, Query

from .answers import checked_answer
from .entries import Asked, End, Go, Left, Say, Stop
from .frame import RunFrame
from .functions import FunctionProgram, FunctionReturned
from .journal import Journal
from .log import JournalLog
from .mailbox import message, place_of_agent
from .opening import OpenedLog, Working
from .results import result_in
from .sealing import Cipher, opened, sealed
from .summaries import cost_between, has_come, summary_of
from .uniques import Uniques
from .voiding import voids_of
from .waiting import Pending, Waiting, next_moment, pending_in, pending_of, waits_for_time
from .written import entry_for, read_log

T = TypeVar("T")
Entering: TypeAlias = Sequence[tuple[str, Value]]  # names and bodies
Answered: TypeAlias = JsonValue | Decision

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
        """`cipher` encrypts the bodies of entries; ids, names of steps and `unique` texts stay readable.

        `lease`: seconds after which a process that is silent is dead.
        """
        self.logs = logs
        self._cipher = cipher
        self._clock = clock or SystemClock()
        self._working = Working(logs, self._clock, cipher, lease)
        self.uniques = Uniques(logs, self._working, self._clock, cipher)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what the store holds open. It is opened again if it is used again."""
        await self._working.close()
        await self.logs.close()

    # --- running ---------------------------------------------------------------------------------

    @overload
    async def run(
        self,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        run_id: str,
        by: str | None = ...,
        budget: Budget | None = ...,
        **kwargs: Any,
    ) -> T: ...
    @overload
    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        run_id: str,
        by: str | None = ...,
        budget: Budget | None = ...,
        **kwargs: Any,
    ) -> T: ...
    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        run_id: str,
        by: str | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a function, or continue its run; return its value.

        The function takes a `Journal` first. A finished run's value is returned, and nothing runs; a failed
        one raises its error again, until `resume(run_id)`. A run that waits for a person or a signal raises
        `RunInterruptedError` with `outcome.pending`; for a moment, this waits. `by`: who asks for the run.
        `budget` is for all agents that run inside, together.
        """
        program = FunctionProgram(function, args, kwargs, by=by, budget=budget)
        checked_run_id(run_id)
        while True:
            async with self.writing(run_id) as held:
                found = await self._leg(program, held)
            if isinstance(found, FunctionReturned):
                return found.value
            still = await self.wait_until_due(run_id) if found.pending else found
            if still is not None:
                raise _interrupted(still)

    @asynccontextmanager
    async def writing(self, run_id: str) -> AsyncGenerator[OpenedLog]:
        """The log of a run, for this process to work on. Waits while another one does."""
        async with self._working.writing(checked_run_id(run_id)) as held:
            held.log.journals = self
            yield held

    async def _leg(self, program: FunctionProgram, held: OpenedLog) -> FunctionReturned | Waiting:
        """Work on a run to its end, or until it waits; one that still waits is left as it is."""
        log = held.log
        begin = log.begin_of()
        if begin is not None:
            program.check(begin, log.run_id)
            if isinstance(log.last, End):
                return FunctionReturned(result_in(log))
            waiting = await self.waiting_in(log)
            if waiting is not None:
                return waiting
        return await program.leg(log, held.token)

    async def waiting_in(self, log: JournalLog) -> Waiting | None:
        """What a run waits for, or that it was stopped; None for one that can go on."""
        last, stopped = log.last, log.stop_reason
        if stopped is not None:
            return Waiting(log.run_id, stopped)
        if not isinstance(last, Left) or not last.waits:
            return None
        waits = tuple(map(pending_of, last.waits))
        due = next_moment(waits)
        if any(has_come(log, one) for one in waits) or (due is not None and await self.logs.now() >= due):
            return None
        return Waiting(log.run_id, last.reason, waits)

    async def wait_until_due(self, run_id: str) -> Waiting | None:
        """Wait for the moment at which a run that was left goes on; returns what else it waits for."""
        while True:
            entries = await self._entries(run_id)
            found = await self.waiting_in(self._log(run_id, entries))
            if found is None:
                return None
            due = next_moment(found.pending)
            if due is None or not waits_for_time(found.pending):
                return found
            await self._wait_for_news(run_id, since=entries[-1].seq + 1, until=due)

    async def _wait_for_news(self, run_id: str, *, since: int, until: float) -> None:
        """Wait for a moment, or until somebody has appended an entry, such as a stop."""
        while (seconds := until - await self.logs.now()) > 0:
            await self._clock.sleep(min(seconds, _MOST_POLL))
            if await self.logs.read(run_id, since=since):
                return

    async def open(self, run_id: str) -> Journal:
        """The log of a run as it is stored now, for reading. An unknown run is a `ConfigError`."""
        return Journal(RunFrame(await self.read(run_id), token=None))

    async def read(self, run_id: str) -> JournalLog:
        """The log of a run as it is stored now. An unknown run is a `ConfigError`."""
        return self._log(run_id, await self._entries(run_id))

    async def _entries(self, run_id: str) -> Sequence[Entry]:
        """The entries of a run, of which there are some."""
        entries = await self.logs.read(checked_run_id(run_id))
        if not entries:
            raise ConfigError(f"there is no run {run_id!r} in these journals; list() shows those there are")
        return entries

    def _log(self, run_id: str, entries: Sequence[Entry]) -> JournalLog:
        log = JournalLog(run_id, self._clock)
        read_log(log, entries, self._cipher)
        return log

    def _entry(self, run_id: str, name: str, body: Value, seq: int) -> Entry:
        """An entry that this process adds to a run that it does not work on."""
        entry = entry_for(name, body, seq, self._clock.time())
        return entry if self._cipher is None else sealed(entry, self._cipher, run_id)

    # --- what enters from outside ----------------------------------------------------------------

    async def answer(self, run_id: str, answers: Mapping[str, Answered], *, by: str | None = None) -> None:
        """Answer questions of a run, by their names or tokens: all that are given, or none.

        A question about a call is answered with a decision: `Approve()`, `Refuse(reason)` and others. `by` is
        who answers. An answer that is not what its question expects is a `ConfigError`.
        """
        given: Any = answers
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(f"answers={answers!r}: give each answer for its name or token")
        now = await self.logs.now()

        def entries(log: JournalLog) -> Entering:
            made = ((_question(log, key), given) for key, given in answers.items())
            return [
                (log.answer_name(asked.token), checked_answer(asked, given, by or "", now=now))
                for asked, given in made
            ]

        await self._enter(run_id, entries)

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
        entry, say = f"say {id or token_hex(8)}", Say(name, plain, by or "")
        await self._enter(run_id, lambda log: () if log.has(entry) else [(entry, say)])

    async def say(
        self,
        run_id: str,
        text: str | Sequence[str | Part],
        *,
        by: str | None = None,
        when: Literal["next", "idle", "interrupt"] = "next",
        place: str | None = None,
        id: str | None = None,
    ) -> None:
        """Send a message to an agent of a run. The same `id` is the same message.

        The agent reads it before its next model call ("next"), once it would end ("idle"), or at once, in place
        of the model call under way ("interrupt"). `place` is that of the agent, in a run with several.
        """
        entry = f"say {id or token_hex(8)}"

        def entries(log: JournalLog) -> Entering:
            if log.has(entry):
                return ()
            if log.index.is_closing:
                raise RunEndedError(
                    f"the run {run_id!r} is about to end, and takes nothing more", run_id=run_id
                )
            return [(entry, message(text, by=by, when=when, place=place_of_agent(log, place)))]

        await self._enter(run_id, entries)

    async def stop(self, run_id: str, reason: str = "stopped", *, by: str | None = None) -> None:
        """Ask a run to stop before its next step; `resume(run_id)` lets it go on."""
        is_worked_on = await self._working.is_worked_on(checked_run_id(run_id))

        def entries(log: JournalLog) -> Entering:
            if log.stop_reason is not None:
                return ()
            stop = (f"stop {1 + log.count('stop')}", Stop(reason, by or ""))
            is_abandoned = not is_worked_on and isinstance(log.last, Go) and log.last.writer
            return [stop, (f"left {log.leg - 1}", Left(reason))] if is_abandoned else [stop]

        await self._enter(run_id, entries)

    async def resume(self, run_id: str, *, by: str | None = None) -> None:
        """Let a run go on that was stopped, or has failed: what had failed is done again.

        The next `run(...)` with this id continues it.
        """
        await self._check_idle(run_id, "resume")

        def entries(log: JournalLog) -> Entering:
            voids = voids_of(log)
            if isinstance(log.last, End) and not voids:
                raise RunEndedError(f"the run {run_id!r} has completed", run_id=run_id)
            if not voids and log.stop_reason is None:
                raise ConfigError(
                    f"the run {run_id!r} was not stopped and has not failed; journals.run(...) continues it"
                )
            return [(f"go {log.leg}", Go("", voids=voids, by=by or ""))]

        await self._enter(run_id, entries, may_have_ended=True)

    async def _enter(
        self, run_id: str, make: Callable[[JournalLog], Entering], *, may_have_ended: bool = False
    ) -> None:
        """Append entries from outside, and tell the task of this process that works on the run."""
        while True:
            stored = await self._entries(run_id)
            log, seq = self._log(run_id, stored), stored[-1].seq
            if isinstance(log.last, End) and not may_have_ended:
                raise RunEndedError(f"the run {run_id!r} has ended, and takes nothing more", run_id=run_id)
            made = make(log)
            if not made:
                return
            new = [
                self._entry(run_id, name, body, number) for number, (name, body) in enumerate(made, seq + 1)
            ]
            for name, body in made:
                log.enter(name, body)
            cost = cost_between(log, 0, len(log.records))
            summary = summary_of(log, log.last, cost, is_sealed=self._cipher is not None)
            try:
                await self.logs.append(run_id, new, after=seq, summary=summary)
            except LogConflictError:
                continue
            held = self._working.find(run_id)
            if held is not None:
                await held.look()
            return

    # --- results ---------------------------------------------------------------------------------

    async def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Wait for the end of a run: returns a function's value, or an agent's `RunResult`.

        Raises the error of a run that has failed, and `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            poll = _POLL
            while True:
                log = self._log(run_id, await self._entries(run_id))
                if isinstance(log.last, End):
                    return result_in(log)
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
    ) -> Sequence[RunRow]:
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
                f"the run {run_id!r} has no entry {before!r}; (await open(run_id)).entries() shows them"
            )
        if not kept:
            raise ConfigError(f"there is nothing before the entry {before!r}; begin the run anew")
        await self._copy(run_id, kept, to, self)

    async def move(self, run_id: str, other: Journals) -> None:
        """Move a run that nobody works on to other journals."""
        seq = await self._check_idle(run_id, "move")
        await self._copy(run_id, await self._entries(run_id), run_id, other)
        if not await self.logs.delete(run_id, seq=seq):
            await other.logs.delete(run_id)
            raise JournalConflictError(
                f"the run {run_id!r} has gone on while it was moved; it stays where it was", run_id=run_id
            )

    async def _copy(self, run_id: str, entries: Sequence[Entry], to: str, other: Journals) -> None:
        """Store the entries of a run as those of another one, which nobody works on."""
        if await other.logs.read(checked_run_id(to)):
            raise RunIdConflictError(f"there is a run {to!r} already; use another id")
        plain = [opened(entry, self._cipher, run_id) for entry in entries]
        log = JournalLog(to, self._clock)
        read_log(log, plain)
        new = [entry if other._cipher is None else sealed(entry, other._cipher, to) for entry in plain]
        if isinstance(log.last, Go) and log.last.writer:  # the process that worked on it does not on this one
            left = Left(f"copied from the run {run_id!r}")
            log.enter(f"left {log.leg - 1}", left)
            new.append(other._entry(to, f"left {log.leg - 1}", left, 0))
        numbered = [replace(entry, seq=number) for number, entry in enumerate(new, 1)]
        cost = cost_between(log, 0, len(log.records))
        summary = summary_of(log, log.last, cost, is_sealed=other._cipher is not None)
        await other.logs.append(to, numbered, after=0, summary=summary)

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
        if await self._working.is_worked_on(run_id):
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

    def answer_sync(self, run_id: str, answers: Mapping[str, Answered], *, by: str | None = None) -> None:
        """Synchronous version of `answer()`."""
        _wait_for(self.answer(run_id, answers, by=by))

    def signal_sync(self, run_id: str, name: str, value: JsonValue = None, **options: Any) -> None:
        """Synchronous version of `signal()`."""
        _wait_for(self.signal(run_id, name, value, **options))

    def say_sync(self, run_id: str, text: str | Sequence[str | Part], **options: Any) -> None:
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

    def list_sync(self, *args: Any, **options: Any) -> Sequence[RunRow]:
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


def _question(log: JournalLog, key: str) -> Asked:
    """The open question with a token or a name."""
    waiting = log.open_questions()
    found = [asked for asked in waiting if key in (asked.token, asked.shown_name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{len(found)} questions are called {key!r}; answer by their tokens")
    if any(key in (asked.token, asked.shown_name) for asked in log.questions()):
        raise ConfigError(f"the question {key!r} was answered already; an answer is taken once")
    names = ", ".join(repr(asked.shown_name) for asked in waiting) or "nothing"
    raise ConfigError(
        f"the run {log.run_id!r} asks nothing with the name or token {key!r}; it waits for {names}"
    )


def _row(info: LogInfo) -> RunRow:
    summary = info.summary
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
