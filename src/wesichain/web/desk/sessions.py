"""Sessions: runs of one agent that a page starts, forks, answers and cancels; each is recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from wesichain.agent import Agent, Completed, Conversation, Interrupted, Outcome
from wesichain.core import EventSink, Message, Role
from wesichain.errors import ConfigError, WesichainError
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder, Recording
from wesichain.web.approvals import ApprovalFolder

from .forks import fork
from .live import LiveRuns

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
