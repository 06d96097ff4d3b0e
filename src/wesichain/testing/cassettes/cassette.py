"""Cassettes: the runs of a test, recorded once and replayed without calling a model or running a tool."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.agent import Agent
from wesichain.core import Event, EventSink, LlmRequest, LlmResponse, RunStarted, TextChunk
from wesichain.errors import ConfigError, ReplayMismatchError
from wesichain.platform.names import portable_name
from wesichain.testing.seams import RunTool, Seam
from wesichain.tools import ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .file import read_cassette, write_cassette
from .tape import Tape

Mode: TypeAlias = Literal["replay", "record", "auto", "drift"]
AgentT = TypeVar("AgentT", bound=Agent[Any, Any])

# The ids of the calls around the current code, outermost first.
_PATH: ContextVar[tuple[str, ...]] = ContextVar("wesichain_cassette_path", default=())


def cassette_path(test_file: Path, name: str) -> Path:
    """Return the path of a test's cassette: `cassettes/<module>/<test>.jsonl` beside the test file.

    A name ends in a hash if it has more than 80 characters, or others than `a-z 0-9 _ . [ ] -`.
    """
    return test_file.parent / "cassettes" / test_file.stem / f"{portable_name(name)}.jsonl"


class Cassette(Seam):
    """The runs of one test. `agent(agent)` returns an agent whose runs are recorded or replayed.

    The agents and tools inside a run, and the agents of a graph, are included. Mode "replay" calls no model
    and runs no tool. "record" calls both, and writes the runs when the test has passed. "auto" replays an
    existing cassette and records a missing one. "drift" replays up to the first difference, continues live,
    and describes the difference in `differences`.

    A tool that runs agents itself (with `parent=ctx`) is run in a replay too; its agents are replayed.
    """

    def __init__(self, path: Path, mode: Mode = "replay") -> None:
        self.path = path
        self.mode: Mode = ("replay" if path.exists() else "record") if mode == "auto" else mode
        self.differences: list[str] = []
        self._recorded: dict[str, list[Event]] = {}
        self._tape: Tape | None = None
        self._is_live = self.mode == "record"
        self._is_used = False

    def agent(self, agent: AgentT) -> AgentT:
        """Return an agent whose runs are recorded to or replayed from this cassette."""
        given: Any = agent
        if not isinstance(given, Agent):
            raise ConfigError(f"cassette.agent() takes an Agent, got {given!r}")
        self._is_used = True
        if self._is_live:
            return agent
        if self._tape is None:
            self._tape = Tape(self._read())
        if self.mode == "drift":
            return agent  # a stream that continues live needs its own model
        taped: Any = copy(agent)
        taped.stream = partial(taped.stream, model=_TapedModel(self, agent))
        return taped  # type: ignore[no-any-return]  # a copy of the agent

    def _read(self) -> Any:
        if not self.path.exists():
            raise ConfigError(
                f"there is no cassette {self.path}: record it once with 'pytest --wesichain=record', which "
                f"calls the model and runs the tools"
            )
        return read_cassette(self.path)

    def save(self) -> None:
        """Write the recorded runs; does nothing in other modes than "record"."""
        if self.mode == "record" and self._is_used:
            write_cassette(self.path, self._recorded.values())

    # --- the seam ------------------------------------------------------------------------------------

    @override
    def is_active(self) -> bool:
        return self._is_used

    @override
    def opened(self, agent: str) -> EventSink | None:
        # The events of an inner run are in the log of the run above.
        return None if _PATH.get() else _EventCollector(self._recorded)

    @override
    async def model(self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]) -> Any:
        if self._is_live or isinstance(llm, _TapedModel):
            return await reply
        try:
            answer = self.reply(request)
        except BaseException:
            reply.close()
            raise
        if answer is None:  # it differs and continues live
            return await reply
        reply.close()
        return answer

    def reply(self, request: LlmRequest) -> LlmResponse | None:
        """Return the recorded reply; None if the run differs from the cassette and continues live."""
        assert self._tape is not None, "a cassette that is not live has a tape"
        try:
            return None if self._is_live else self._tape.reply(request)
        except ReplayMismatchError as error:
            self._differs(error)
            return None

    @override
    async def tool(self, run: RunTool, prepared: PreparedCall, ctx: ToolContext | None) -> ToolResult:
        tape, call, path = self._tape, prepared.call, _PATH.get()
        agent = "" if ctx is None else ctx.agent
        is_run = self._is_live or prepared.tool.is_agent
        if tape is not None and not (is_run or tape.is_entered(call, path, agent)):
            try:
                return tape.result(call, path, agent)
            except ReplayMismatchError as error:
                self._differs(error)
        token = _PATH.set((*path, call.id))
        try:
            return await run(prepared, ctx)
        finally:
            _PATH.reset(token)

    def _differs(self, error: ReplayMismatchError) -> None:
        if self.mode != "drift":
            raise error
        self._is_live = True
        self.differences.append(str(error).partition("; record it again")[0])


class _EventCollector:
    """Collects the events of a run; a resumed run appends to the same list."""

    def __init__(self, runs: dict[str, list[Event]]) -> None:
        self._runs = runs
        self._events: list[Event] | None = None

    def emit(self, event: Event) -> None:
        if self._events is None:
            name = event.run_id
            if isinstance(event, RunStarted) and not event.resumed and not event.scope:
                while name in self._runs:  # another run with the same id
                    name += "'"
            self._events = self._runs.setdefault(name, [])
        self._events.append(event)


class _TapedModel:
    """A model that replies from the cassette, with or without streaming."""

    def __init__(self, cassette: Cassette, agent: Agent[Any, Any]) -> None:
        self._cassette = cassette
        self.model = agent.runtime.model
        self.traits = agent.runtime.traits

    async def complete(self, request: LlmRequest) -> LlmResponse:
        reply = self._cassette.reply(request)
        assert reply is not None, "a replay never continues live"
        return reply

    async def stream(self, request: LlmRequest) -> Any:
        reply = await self.complete(request)
        if reply.content:
            yield TextChunk(reply.content)
        yield reply
