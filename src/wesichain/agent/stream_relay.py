"""A relay for a reply that streams: emits its text, and the readable part of a typed answer."""

from __future__ import annotations

from typing import Any

from wesichain.core import JsonValue, LlmResponse, TextDelta, ToolCallChunk
from wesichain.core.internal import OutputDelta, parse_json
from wesichain.errors import CodecError

from .rules.answers import unfenced
from .run_state import RunState

_LEAST = 16  # characters between two attempts to parse an answer
_SHARE = 8  # and an eighth of its length: the cost of all attempts together is then linear


class StreamRelay:
    """Receives one reply piece by piece. A typed answer is parsed when it is longer by an eighth."""

    __slots__ = ("_calls", "_form", "_last", "_next", "_pieces", "_run", "_size", "_step", "_tool")

    def __init__(self, run: RunState[Any]) -> None:
        self._run = run
        self._step = run.step
        self._form = run.settings.judge.output
        if run.pending_deltas is not None:
            run.pending_deltas = []  # drop those of a reply that was not the answer
        form = self._form
        self._calls: dict[int, str] = {}  # the names of the reply's calls
        self._tool: str | None = None  # the final tool, if the pieces are its arguments
        self._last: Any = None
        self._pieces: list[str] | None = [] if form.members else None  # None if the reply has no typed answer
        self._size = 0
        self._next = _LEAST

    def __call__(self, text: str) -> None:
        """Receive a piece of the reply's text."""
        self.piece(TextDelta, text)
        if self._tool is None:
            self._take(text)

    def call(self, chunk: ToolCallChunk) -> None:
        """Receive a piece of one of its calls."""
        name = self._calls.setdefault(chunk.index, chunk.name)
        if not any(spec.name == name for spec in self._form.final_tools):
            return
        if self._tool is None:
            self._tool = name
            self._pieces, self._size, self._next = [], 0, _LEAST
        if next(index for index, one in self._calls.items() if one == self._tool) == chunk.index:
            self._take(chunk.args)

    def end(self, reply: LlmResponse) -> None:
        """Receive the complete reply."""
        if self._form.members:
            self._end_typed(reply)
        finals = {spec.name for spec in self._form.final_tools}
        if self._run.pending_deltas and any(call.name not in finals for call in reply.tool_calls):
            self._run.release_deltas()
            self._run.pending_deltas = []

    def _end_typed(self, reply: LlmResponse) -> None:
        names = {spec.name for spec in self._form.final_tools}
        final = next((call for call in reply.tool_calls if call.name in names), None)
        whole: JsonValue = reply.content if final is None else final.args
        try:
            plain = parse_json(unfenced(whole)) if isinstance(whole, str) else whole
        except CodecError:
            return
        self._show(self._form.partial(plain, None if final is None else final.name))

    def piece(self, kind: type[TextDelta | OutputDelta], value: JsonValue) -> None:
        """Emit a piece of the reply, or hold it back if the answer is checked first."""
        held = self._run.pending_deltas
        if held is None:
            self._run.log.show(kind, self._step, value)
        else:
            held.append((kind, self._step, value))

    async def ready(self) -> None:
        """Wait for a slow reader."""
        if self._run.pressure is not None:
            await self._run.pressure()

    def _take(self, piece: str) -> None:
        if self._pieces is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size < self._next:
            return
        self._next = self._size + max(_LEAST, self._size // _SHARE)
        text = "".join(self._pieces)
        self._pieces = [text]
        text = text.lstrip().removeprefix("```json").removeprefix("```").lstrip()
        if text and text[0] not in "{[":
            self._pieces = None  # plain text: neither an object nor a list
            return
        from pydantic_core import from_json

        try:
            plain = from_json(text, allow_inf_nan=False, allow_partial="trailing-strings")
        except ValueError:
            return
        self._show(self._form.partial(plain, self._tool))

    def _show(self, value: Any) -> None:
        if value is not None and value != self._last:
            self._last = value
            self.piece(OutputDelta, value)
