"""The agent of the chat in the page, served by `wesichain.edge`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from wesichain.agent import Agent, RunStream
from wesichain.agent.internal import result_of
from wesichain.core import EventSink
from wesichain.core.internal import Decision
from wesichain.edge import Limits, Order, create_app
from wesichain.edge.internal import DepsMaker, RunDirectory
from wesichain.trace import Recorder, Recording

from .approvals import ApprovalFolder
from .forks import fork

_AT_ONCE = 32  # concurrent runs
_WINDOW = 16_000  # tokens of a conversation that the model receives


class AgentDesk:
    """The agent of the chat: an app for its runs, which are recorded, and the forks of recorded runs.

    Runs end with the server; their recordings are kept. Calls that wait for approval are in the folder of
    approvals, so that they can be decided in a terminal too.
    """

    def __init__(
        self,
        agent: Agent[Any],
        *,
        runs: Path,
        approvals: ApprovalFolder,
        deps: Callable[..., Any] | None = None,
    ) -> None:
        self.agent = agent
        self._approvals = approvals
        self._options = {} if deps is None else {"deps": DepsMaker(deps)}
        self.app = create_app(
            agent,
            limits=Limits(runs=_AT_ONCE, conversation_tokens=_WINDOW),
            events=(Recorder(runs),),
            inbox=approvals,
            deps=deps,
            protocols=False,
        )
        self._runs: RunDirectory = self.app.state.runs

    def about(self) -> dict[str, Any]:
        """The agent's name, description, model and tools."""
        return {
            "name": self.agent.name,
            "description": self.agent.description,
            "model": self.agent.runtime.model,
            "tools": [
                {"name": spec.name, "description": spec.description} for spec in self.agent.runtime.offered()
            ],
        }

    async def fork(self, recording: Recording, step: int) -> str:
        """Start a fork of a recorded run at a step; return the id of the new run."""

        def begin(options: dict[str, Any]) -> RunStream[Any]:
            async def run(sink: EventSink, opened: Callable[[Any], None]) -> Any:
                given: dict[str, Any] = {**options, "events": (*options["events"], sink), "on_open": opened}
                return result_of(await fork(recording, self.agent, step, stream=True, **given))

            return RunStream(run)

        order = Order(
            uuid4().hex, owner="", task=recording.user_input, stay=True, begin=begin, options=self._options
        )
        return (await self._runs.keeper(None).start(order)).run_id

    async def decide(self, token: str, decision: Decision) -> bool:
        """Decide on a waiting call of a run of this agent; return False if there is none.

        The last decision resumes the run. Earlier ones are stored in the folder of approvals.
        """
        waiting = self._approvals.pending()
        run_id = next((item.run_id for item in waiting if item.pending.token == token), None)
        run = None if run_id is None else await self._runs.find("", run_id)
        if run_id is None or run is None:
            return False
        if sum(item.run_id == run_id for item in waiting) > 1:
            self._approvals.decide(token, decision)
        else:
            decisions = {**self._approvals.decisions(run_id), token: decision}
            await run.decide(decisions, {}, is_streamed=False)
        return True
