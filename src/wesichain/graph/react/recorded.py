"""Effects with a record: what an agent in a node was told is not asked again, what it did is not done again.

A node that is run anew, after its process was killed or an attempt of it failed, takes the replies and
results of the time before from its task's record, and goes on live where that ends. A call whose effect must
happen once leaves its intent there first: where only that is found, nobody knows what came of it, and the
model is told so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from typing_extensions import override

from wesichain.agent import Caller, Effects
from wesichain.core import CancellationToken, JsonValue, LlmRequest, LlmResponse, from_plain, to_plain
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.context import Record
from wesichain.graph.state import is_dict
from wesichain.tools import PreparedCall, ToolResult

_INTENT = "intent"


class Recording:
    """The record of one visit to a node, as the effects of the agent that runs in it."""

    def __init__(self, record: Record | None) -> None:
        self.record = record
        self.failure: CheckpointError | None = None
        self.cancellation = CancellationToken()

    @property
    def effects(self) -> Callable[[Effects], Effects] | None:
        """What wraps the effects of a run; None where nothing is recorded."""
        return None if self.record is None else self.wrap

    def wrap(self, live: Effects) -> Effects:
        """The effects with the record that there is at the time: a run in steps has one for each visit."""
        return RecordedEffects(live, self, "")

    def read(self, name: str) -> Any:
        return None if self.record is None else self.record.read(name)

    async def write(self, name: str, data: JsonValue) -> None:
        if self.record is None:
            return
        try:
            await self.record.write(name, data)
        except CheckpointError as error:
            self.failure = error
            self.cancellation.cancel("its thread was written to by somebody else")
            raise

    def check(self) -> None:
        """Raise what stopped the run from this side: it is the graph's error, not the agent's."""
        if self.failure is not None:
            raise self.failure


class RecordedEffects(Effects):
    """The world, with the record of a task before it. `prefix` is the way down to a run inside a call."""

    def __init__(self, live: Effects, recording: Recording, prefix: str) -> None:
        self._live = live
        self._recording = recording
        self._prefix = prefix
        self._times: Counter[str] = Counter()
        self.cancellation = recording.cancellation

    @override
    async def ask(
        self, request: LlmRequest, *, step_id: int, on_text: Callable[[str], None] | None
    ) -> LlmResponse:
        name = self._name(f"ask {step_id}")
        known = self._recording.read(name)
        if known is not None:
            reply: LlmResponse = from_plain(LlmResponse, known)
            if on_text is not None and reply.content:
                on_text(reply.content)
        else:
            reply = await self._live.ask(request, step_id=step_id, on_text=on_text)
            if not isinstance(cast("object", reply), LlmResponse):
                return reply  # the loop will say what it thinks of it
            await self._recording.write(name, to_plain(reply))
        self._times[f"ask {step_id}"] += 1
        return reply

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        tool, call = prepared.tool, prepared.call
        if tool.is_agent:  # what it does inside has records of its own
            return await self._live.call(prepared, caller)
        name = self._name(f"call {caller.context(call).step_id} {call.id}")
        known = self._recording.read(name)
        if known == _INTENT:
            return ToolResult(call.id, call.name, _unknown(call.name))
        if is_dict(known):
            return ToolResult(call.id, call.name, known["value"], None, known["ms"], known["finish"])
        if tool.effect == "once":
            await self._recording.write(name, _INTENT)
        result = await self._live.call(prepared, caller)
        if (done := _kept(result, is_once=tool.effect == "once")) is not None:
            await self._recording.write(name, done)
        return result

    @override
    def below(self, scope: str) -> Callable[[Effects], Effects] | None:
        return lambda live: RecordedEffects(live, self._recording, f"{self._prefix}{scope}/")

    def _name(self, what: str) -> str:
        """The name of the next reply, or result, of this. What failed has none: it is done anew."""
        return f"{self._prefix}{what} {self._times[what]}"


def _kept(result: ToolResult, *, is_once: bool) -> JsonValue:
    """A result as it is recorded; None for one that is not. A failure of a call that must not be made again
    is what the model is told of it from then on.
    """
    failure = None if result.error is None else f"Error: {result.error}"
    if failure is not None and not is_once:
        return None
    try:
        value = to_plain(result.value) if failure is None else failure
    except CodecError:
        return None  # a value that is no data: the loop will say so
    return {"value": value, "ms": result.duration_ms, "finish": result.finish}


def _unknown(name: str) -> str:
    """What the model is told: whatever a policy makes of errors, this call is never made again."""
    return (
        f"Error: the outcome of {name!r} is unknown: the process that ran it ended before it could say what "
        f"came of it. It is not run again, since its effect is 'once'; find out whether it happened."
    )
