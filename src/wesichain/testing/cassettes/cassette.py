"""Cassettes: the runs of one test, recorded once and replayed without a model and without running a tool."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from contextvars import ContextVar
from copy import copy
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.agent import Agent
from wesichain.core import Event, EventSink, LlmRequest, LlmResponse, RunStarted, TextChunk
from wesichain.core.internal import traits_of
from wesichain.errors import ConfigError, ReplayMismatchError
from wesichain.testing.seams import RunTool, Seam
from wesichain.tools import PreparedCall, ToolContext, ToolResult

from .file import read_cassette, write_cassette
from .tape import Tape

Mode: TypeAlias = Literal["replay", "record", "auto", "drift"]
AgentT = TypeVar("AgentT", bound=Agent[Any, Any])

_LONGEST = 80  # characters of a file's name
# The calls that the code which runs now is inside of, outermost first.
_PATH: ContextVar[tuple[str, ...]] = ContextVar("wesichain_cassette_path", default=())


def cassette_path(test_file: Path, name: str) -> Path:
    """Where the cassette of a test is: `cassettes/<module>/<test>.jsonl` beside the test's file.

    Characters that a file's name cannot have are escaped; a long name ends in a hash, and so does one that
    differs only in its case from a file that is there: many file systems take the two for one.
    """
    folder = test_file.parent / "cassettes" / test_file.stem
    escaped = re.sub(r"[^A-Za-z0-9_.\[\]-]", lambda found: f"%{ord(found[0]):02x}", name)
    hashed = f"{escaped[: _LONGEST - 13]}-{sha256(name.encode()).hexdigest()[:12]}.jsonl"
    plain = f"{escaped}.jsonl"
    present = {path.name for path in folder.glob("*.jsonl")}  # `exists` might find a file of another case
    is_taken = plain.lower() in {path.lower() for path in present}
    if len(escaped) > _LONGEST or hashed in present or (is_taken and plain not in present):
        return folder / hashed
    return folder / plain


class Cassette(Seam):
    """The runs of one test. `agent(agent)` returns an agent whose runs are recorded or replayed.

    The agents and tools inside a run belong to it, and so do the agents of a graph. In mode "replay" no model
    is asked and no tool is run; in "record" both are, and the runs are written when the test has passed;
    "auto" replays a cassette that is there and records one that is not; "drift" replays up to the first
    difference, goes on live from there, and keeps what differed in `differences`.
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
        """The agent, with its runs on this cassette."""
        given: Any = agent
        if not isinstance(given, Agent):
            raise ConfigError(f"cassette.agent() takes an Agent, and was given {given!r}")
        self._is_used = True
        if self._is_live:
            return agent
        if self._tape is None:
            self._tape = Tape(self._read())
        if self.mode == "drift":
            return agent  # a stream that goes on live needs its own model
        taped: Any = copy(agent)
        taped.stream = partial(taped.stream, model=_TapedModel(self, agent))
        return taped  # type: ignore[no-any-return]  # a copy of the agent

    def _read(self) -> Any:
        if not self.path.exists():
            raise ConfigError(
                f"there is no cassette {self.path}: record it once with 'pytest --wesichain=record', which "
                f"asks the model and runs the tools"
            )
        return read_cassette(self.path)

    def save(self) -> None:
        """Write what was recorded; in other modes than "record" nothing is written."""
        if self.mode == "record" and self._is_used:
            write_cassette(self.path, self._recorded.values())

    # --- between the runs and the world --------------------------------------------------------------

    @override
    def is_active(self) -> bool:
        return self._is_used

    @override
    def opened(self, agent: str) -> EventSink | None:
        return (
            None if _PATH.get() else _EventCollector(self._recorded)
        )  # a run inside a call is in the log above

    @override
    async def model(self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]) -> Any:
        if self._is_live or isinstance(llm, _TapedModel):
            return await reply
        try:
            answer = self.reply(request)
        except BaseException:
            reply.close()
            raise
        if answer is None:  # it differs, and goes on live
            return await reply
        reply.close()
        return answer

    def reply(self, request: LlmRequest) -> LlmResponse | None:
        """The recorded reply; None where the run has left the cassette and goes on live."""
        assert self._tape is not None, "a cassette that is not live has a tape"
        try:
            return None if self._is_live else self._tape.reply(request)
        except ReplayMismatchError as error:
            self._differs(error)
            return None

    @override
    async def tool(self, run: RunTool, prepared: PreparedCall, ctx: ToolContext | None) -> ToolResult:
        tape, call, path = self._tape, prepared.call, _PATH.get()
        is_taped = not self._is_live and tape is not None and not prepared.tool.is_agent
        if is_taped and tape is not None and not tape.is_entered(call, path):
            try:
                return tape.result(call, path)
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
    """Keeps the events of a run; one that is resumed goes on in its list."""

    def __init__(self, runs: dict[str, list[Event]]) -> None:
        self._runs = runs
        self._events: list[Event] | None = None

    def emit(self, event: Event) -> None:
        if self._events is None:
            name = event.run_id
            if isinstance(event, RunStarted) and not event.resumed and not event.scope:
                while name in self._runs:  # a second run of the same name
                    name += "'"
            self._events = self._runs.setdefault(name, [])
        self._events.append(event)


class _TapedModel:
    """A model that answers from the cassette, in pieces where it is streamed."""

    def __init__(self, cassette: Cassette, agent: Agent[Any, Any]) -> None:
        self._cassette = cassette
        self.model = agent.runtime.model
        self.traits = agent.runtime.traits if hasattr(agent.runtime, "traits") else traits_of(None)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        reply = self._cassette.reply(request)
        assert reply is not None, "another request is refused: a replay never goes on live"
        return reply

    async def stream(self, request: LlmRequest) -> Any:
        reply = await self.complete(request)
        if reply.content:
            yield TextChunk(reply.content)
        yield reply
