"""The desk: runs of one agent that a page starts, forks, answers and cancels, and follows as they happen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from typing_extensions import override

from wesichain.agent import Agent, Completed, Conversation, Interrupted, Outcome, replay
from wesichain.core import (
    Event,
    EventSink,
    Message,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepStarted,
    SystemClock,
    to_json,
)
from wesichain.errors import ConfigError, WesichainError
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder, Recording

from .approvals import ApprovalFolder

_log = logging.getLogger("wesichain.web")
_AT_ONCE = 32  # runs of one desk
_TALKS = 256  # conversations that are remembered
_WINDOW = 16_000  # tokens of a conversation that a run sees

Begin: TypeAlias = Callable[[dict[str, Any]], Awaitable[Outcome[Any]]]


class AgentDesk:
    """One agent, as the page talks to it. Runs end with the server; what they recorded stays."""

    def __init__(self, agent: Agent[Any], *, runs: Path, approvals: ApprovalFolder) -> None:
        self.agent = agent
        self.live = LiveRuns()
        self.problems: dict[str, str] = {}  # why runs did not begin
        self._recorder = Recorder(runs)
        self._approvals = approvals
        self._talks: dict[str, Conversation] = {}
        self._tokens: dict[str, CancellationToken] = {}  # of runs that go on
        self._waiting: dict[
            str, Conversation | None
        ] = {}  # runs that wait for a person, and their conversation
        self._tasks: set[asyncio.Task[None]] = set()

    def about(self) -> dict[str, Any]:
        """The facts about the agent that a page shows."""
        return {
            "name": self.agent.name,
            "description": self.agent.description,
            "model": self.agent.runtime.model,
            "tools": [
                {"name": spec.name, "description": spec.description} for spec in self.agent.runtime.offered()
            ],
        }

    def start(self, task: str, conversation: str | None = None) -> tuple[str, str]:
        """Begin a run; the ids of the run and of the conversation, which is a new one if none is named."""
        if conversation is not None and conversation not in self._talks:
            raise ConfigError("this conversation is not known any more; begin a new one")
        name = conversation or uuid4().hex
        talk = self._talks.setdefault(name, Conversation(_WINDOW))
        while len(self._talks) > _TALKS:
            self._talks.pop(next(iter(self._talks)))

        def begin(options: dict[str, Any]) -> Awaitable[Outcome[Any]]:
            return self.agent.outcome(task, run_id=run_id, conversation=talk, **options)

        run_id = uuid4().hex
        self._begin(run_id, begin, talk)
        return run_id, name

    def fork(self, recording: Recording, step: int) -> str:
        """Take a recorded run up at a step, as a run of its own."""
        run_id = uuid4().hex

        def begin(options: dict[str, Any]) -> Awaitable[Outcome[Any]]:
            return fork(recording, self.agent, step, run_id=run_id, **options)

        self._begin(run_id, begin, None)
        return run_id

    def cancel(self, run_id: str) -> bool:
        """Stop a run of this desk; whether it went on."""
        token = self._tokens.get(run_id)
        if token is not None:
            token.cancel("cancelled in the page")
        return token is not None

    def decided(self, run_id: str) -> None:
        """A call of a run was decided on: the run goes on as soon as none waits any more."""
        if run_id not in self._waiting:
            return
        decisions = dict(self._approvals.decisions(run_id))
        if any(item.run_id == run_id for item in self._approvals.pending()):
            return
        talk = self._waiting.pop(run_id)
        try:
            interrupted = self._approvals.take(run_id)
        except ConfigError:  # another process goes on with it
            return

        async def begin(options: dict[str, Any]) -> Outcome[Any]:
            outcome: Outcome[Any] = await self.agent.runtime.resume(interrupted, decisions, **options)
            if talk is not None and isinstance(outcome, Completed):
                talk.add(
                    Message(Role.USER, interrupted.user_input), Message(Role.ASSISTANT, str(outcome.text))
                )
            return outcome

        self._begin(run_id, begin, talk)

    def _begin(self, run_id: str, begin: Begin, talk: Conversation | None) -> None:
        if len(self._tokens) >= _AT_ONCE:
            raise ConfigError(f"{_AT_ONCE} runs go on already; wait for one, or cancel it")
        token = self._tokens[run_id] = CancellationToken()
        task = asyncio.get_running_loop().create_task(self._execute(run_id, begin, talk, token))
        self._tasks.add(task)  # a task that nobody holds may be collected
        task.add_done_callback(self._tasks.discard)

    async def _execute(
        self, run_id: str, begin: Begin, talk: Conversation | None, token: CancellationToken
    ) -> None:
        live = self.live.open(run_id)
        sinks: tuple[EventSink, ...] = (self._recorder, live)
        try:
            outcome = await begin({"cancellation": token, "events": sinks, "stream": True})
            if isinstance(outcome, Interrupted) and outcome.pending:
                self._approvals.put(outcome)
                self._waiting[run_id] = talk
        except WesichainError as error:  # a replay that parts from its recording, a setting that is wrong
            _log.warning("the run %s did not begin: %s", run_id, error)
            self._tell(run_id, str(error))
        except Exception:  # noqa: BLE001  # a bug, of ours or of the agent's: the server goes on
            _log.exception("the run %s broke", run_id)
            self._tell(run_id, "something went wrong; the server's log says what")
        finally:
            del self._tokens[run_id]
            self.live.close(live)

    def _tell(self, run_id: str, problem: str) -> None:
        self.problems[run_id] = problem
        while len(self.problems) > _TALKS:
            self.problems.pop(next(iter(self.problems)))


_PING = 15.0  # seconds
_MOST = 200_000  # events of one run that are kept for those who come late


class LiveRun(EventSink):
    """One run while it goes on. Its file has everything but the pieces of text, and a little later."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.is_over = False
        self._events: list[tuple[int, bytes]] = []
        self._news = asyncio.Event()

    @override
    def emit(self, event: Event) -> None:
        if len(self._events) < _MOST:
            self._events.append((event.seq, to_json(event).encode()))
        if not event.scope and isinstance(event, RunCompleted | RunFailed | RunInterrupted):
            self.is_over = True
        self.tell()

    def close(self) -> None:
        """There will be nothing more, whatever came."""
        self.is_over = True
        self.tell()

    def tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """The events with a number above `after` as server-sent events, as they come, until the run ends."""
        place = 0
        while True:
            news = self._news
            some = self._events[place:]
            place += len(some)
            fresh = [item for item in some if item[0] > after]
            if fresh:
                yield b"".join(b"id: %d\ndata: %s\n\n" % item for item in fresh)
            if self.is_over and place == len(self._events):
                yield b"event: end\ndata: {}\n\n"
                return
            try:
                await asyncio.wait_for(news.wait(), _PING)
            except TimeoutError:
                yield b": still here\n\n"


class LiveRuns:
    """The runs that go on in this process, by id."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def open(self, run_id: str) -> LiveRun:
        made = self._runs[run_id] = LiveRun(run_id)
        return made

    def find(self, run_id: str) -> LiveRun | None:
        return self._runs.get(run_id)

    def close(self, run: LiveRun) -> None:
        run.close()
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]


OutT = TypeVar("OutT")


def step_numbers(recording: Recording) -> tuple[int, ...]:
    """The numbers of the run's own steps, in order: where it can be forked."""
    found = (
        event.step_id for event in recording.events if isinstance(event, StepStarted) and not event.scope
    )
    return tuple(dict.fromkeys(found))


async def fork(
    recording: Recording,
    agent: Agent[Any, OutT],
    from_step: int,
    *,
    run_id: str,
    events: Sequence[EventSink] = (),
    stream: bool = False,
    **options: Any,
) -> Outcome[OutT]:
    """Replay the steps before `from_step`, go on live from there, and tell it all as one new run.

    A step that the recording does not have is a `ConfigError`; a program that has changed before it is a
    `ReplayMismatchError`.
    """
    steps = step_numbers(recording)
    if from_step not in steps:
        has = f"steps {steps[0]} to {steps[-1]}" if steps else "no steps"
        raise ConfigError(f"there is no step {from_step}: the run has {has}")
    before = _before(recording.events, from_step)
    forked = Recording(run_id, tuple(replace(event, run_id=run_id) for event in before))
    program = _Forked(agent, {"events": events, "stream": stream, "clock": SystemClock(), **options})
    return await replay(forked, cast("Agent[Any, OutT]", program), from_step)


def _before(events: Sequence[Event], step: int) -> list[Event]:
    """The events up to the step, and its own start."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, StepStarted) and not event.scope and event.step_id == step:
            return [*kept, event]
        if isinstance(event, RunStarted) and not event.scope and event.resumed:
            raise ConfigError(
                f"step {step} comes after a decision of a person, which is bound to that run; "
                f"fork at an earlier step"
            )
        kept.append(event)
    return kept


class _Forked:
    """The agent as a replay uses it, with the sinks and the clock of a run of today."""

    def __init__(self, agent: Agent[Any], options: Mapping[str, Any]) -> None:
        self._agent = agent
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def outcome(self, task: str, **options: Any) -> Awaitable[Outcome[Any]]:
        ours = self._options
        merged: dict[str, Any] = {**options, **ours}
        merged["events"] = (*options["events"], *ours["events"])
        merged["stream"] = options["stream"] or ours["stream"]
        return self._agent.outcome(task, **merged)
