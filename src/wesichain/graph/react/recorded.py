"""Effects with a record: an agent in a node that is run again repeats no model call and no tool call.

A node that is run anew, after its process was killed or an attempt of it failed, takes the replies and
results of the time before from its task's record, and goes on live where that ends: with what ended the run,
if something did. An error that the run survived is raised again as it was, so that it takes the same way.

A call whose effect must happen once writes its intent there first: where only that is found, nobody knows
what came of it, and the model gets that as the result. Its record is the thread's, by the call's idempotency
key: a branch or a fork that comes to the same call is given what came of it then. A branch may also come to
another call under that key, since its model is called again: that is one of its own, and its key says so.
A call that waits for a run inside it has not ended: it is made again, and that run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, TypeVar, cast

from typing_extensions import override

from wesichain.agent import (
    Caller,
    Effects,
    FixedCaller,
    JournalEntry,
    RaisedError,
    extra_call_events,
    reemit_extra_calls,
    unknown_outcome,
)
from wesichain.core import Event, JsonValue, LlmRequest, LlmResponse, Part, ToolCall
from wesichain.core.internal import CancellationToken, dump_json, from_plain, to_plain
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.checkpoints.coding import excerpt
from wesichain.graph.context import TaskRecord
from wesichain.graph.state.kinds import is_dict
from wesichain.tools import PreparedCall, ToolResult

T = TypeVar("T")

_INTENT, _WAITING = "intent", "waiting"


class NodeRecording:
    """The record of one visit to a node, as the effects of the agent that runs in it."""

    def __init__(self, record: TaskRecord | None) -> None:
        self.record = record
        self.failure: CheckpointError | None = None
        self.cancellation = CancellationToken()

    @property
    def effects(self) -> Callable[[Effects], Effects] | None:
        """The function that wraps the effects of a run; None where nothing is recorded."""
        return None if self.record is None else self.wrap

    def wrap(self, live: Effects) -> Effects:
        """The effects with the record that there is at the time: a run in steps has one for each visit."""
        return RecordedEffects(live, self, "")

    def read(self, name: str) -> Any:
        return None if self.record is None else self._undamaged(name, self.record.read(name))

    def read_once(self, once: str) -> Any:
        return None if self.record is None else self._undamaged(once, self.record.read_once(once))

    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        if self.record is None:
            return
        try:
            await self.record.write(name, data, once=once)
        except CheckpointError as error:
            self._stop(error, "its thread was written to by somebody else")
            raise

    def _undamaged(self, name: str, known: Any) -> Any:
        if known is None or known == _INTENT or is_dict(known):
            return known
        error = CheckpointError(f"the record of {name!r} is damaged: {excerpt(known)}")
        self._stop(error, str(error))
        raise error

    def _stop(self, error: CheckpointError, reason: str) -> None:
        """End the run: whatever its policy makes of an error, this is none of the agent's."""
        self.failure = error
        self.cancellation.cancel(reason)

    def check(self) -> None:
        """Raise what stopped the run from this side: it is the graph's error, not the agent's."""
        if self.failure is not None:
            raise self.failure


class RecordedEffects(Effects):
    """The world, with the record of a task before it. `prefix` is the way down to a run inside a call."""

    def __init__(self, live: Effects, recording: NodeRecording, prefix: str) -> None:
        self._live = live
        self._recording = recording
        self._prefix = prefix
        self._times: Counter[str] = Counter()
        self._failed: dict[str, JsonValue] = {}  # what failed, by its name: it may yet end the run
        self._run: Any = None
        self.remembers = True
        self.cancellation = recording.cancellation

    @override
    def attach(self, run: Any) -> None:
        self._run = run

    @override
    async def ask(
        self, request: LlmRequest, *, step_id: int, on_text: Callable[[str], None] | None
    ) -> LlmResponse:
        name = f"{self._prefix}ask {step_id} {self._times[f'ask {step_id}']}"
        self._times[f"ask {step_id}"] += 1
        known = self._recording.read(name)
        if known is not None:
            return self._recorded_reply(known, on_text)
        await self._survive(list(self._failed))
        before = 0 if self._run is None else self._run.emitter.last_seq
        try:
            reply = await self._live.ask(request, step_id=step_id, on_text=on_text)
        except Exception as error:
            self._failed[name] = {"raised": _raised(error), "spare": self._extra_calls(before)}
            raise
        if not isinstance(cast("object", reply), LlmResponse):
            return reply  # the loop will say what it thinks of it
        await self._recording.write(name, {"reply": to_plain(reply), "spare": self._extra_calls(before)})
        return reply

    def _recorded_reply(self, known: Any, on_text: Callable[[str], None] | None) -> LlmResponse:
        """A reply, or what was raised instead, with the model calls that a middleware made beside it."""
        spare: list[Event] = [from_plain(cast("Any", Event), one) for one in known.get("spare", ())]
        if self._run is not None:
            reemit_extra_calls(self._run, spare)
        if "raised" in known:
            raise from_plain(RaisedError, known["raised"]).revived()
        reply: LlmResponse = from_plain(LlmResponse, known.get("reply", known))  # once it was all there was
        if on_text is not None and reply.content:
            on_text(reply.content)
        return reply

    def _extra_calls(self, before: int) -> list[Any]:
        """The model calls that a middleware has made beside the one of this step: they are paid for too."""
        return (
            [] if self._run is None else [to_plain(event) for event in extra_call_events(self._run, before)]
        )

    async def _survive(self, names: list[str]) -> None:
        """Record what failed and did not end the run: the loop goes on, and must take the same way again."""
        for name in names:
            await self._recording.write(name, self._failed.pop(name))

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        tool, call = prepared.tool, prepared.call
        if tool.is_agent and tool.effect != "once":  # what it does inside has records of its own
            return await self._live.call(prepared, caller)
        ctx = caller.context(call)
        place = f"{self._prefix}call {ctx.step_id} {call.id}"
        name, once = f"{place} {ctx.attempt - 1}", None
        known = self._recording.read(name)
        if tool.effect == "once":
            once, found = self._once(ctx.idempotency_key, call)
            known = found if known is None else known
            ctx = ctx if once == ctx.idempotency_key else replace(ctx, idempotency_key=once)
        if known is not None and not _is_waiting(known):
            return _result(known, call)
        caller = FixedCaller(ctx)
        if tool.is_agent:
            return await self._run_agent(prepared, caller, name, once)
        await self._survive([failed for failed in self._failed if failed.startswith(f"{place} ")])
        if once is not None:
            await self._recording.write(name, _marked(_INTENT, call), once=once)
        result = await self._live.call(prepared, caller)
        if ctx.link is not None and ctx.link.waits(result.error):
            if once is not None:  # in place of its intent
                await self._recording.write(name, _marked(_WAITING, call), once=once)
        elif result.error is not None and once is None:
            self._failed[name] = {"raised": _raised(result.error), "ms": result.duration_ms}
        elif (done := _kept(result)) is not None:
            await self._recording.write(name, done if once is None else _marked(done, call), once=once)
        return result

    async def _run_agent(
        self, prepared: PreparedCall, caller: Caller, name: str, once: str | None
    ) -> ToolResult:
        """Run an agent that is a tool. What it does inside has records of its own: it has no intent, and goes
        on where it was; what came of it is kept for branches.
        """
        result = await self._live.call(prepared, caller)
        if result.error is None and (done := _kept(result)) is not None:
            await self._recording.write(name, _marked(done, prepared.call), once=once)
        return result

    def _once(self, key: str, call: ToolCall) -> tuple[str, Any]:
        """The id under which a call that is made once is kept, and what is."""
        found = self._recording.read_once(key)
        if not is_dict(found) or found.get("mark") == _mark(call):
            return key, found
        other = f"{key}~{_mark(call)}"  # the key was of another call, on another branch
        return other, self._recording.read_once(other)

    @override
    async def remember(self, entry: JournalEntry[T], make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gave when the node was here before, or gives now. Checks and tools are made anew."""
        if entry.verb not in ("instruct", "advise", "approve"):
            return await make()
        name = f"{self._prefix}{entry.verb} {entry.step_id} {entry.call_id}".rstrip()
        known = self._recording.read(name)
        if is_dict(known):
            return entry.read(known["text"])
        value = await make()
        await self._recording.write(name, {"text": entry.write(value)})
        return value

    @override
    def below(self, call: str, number: int) -> Callable[[Effects], Effects] | None:
        scope = call if number == 1 else f"{call}~{number}"
        return lambda live: RecordedEffects(live, self._recording, f"{self._prefix}{scope}/")


# --- what is recorded ------------------------------------------------------------------------------


def _mark(call: ToolCall) -> str:
    """Tells calls apart that have one key."""
    return sha256(f"{call.name} {dump_json(call.args)}".encode()).hexdigest()[:16]


def _marked(done: JsonValue, call: ToolCall) -> JsonValue:
    return {"mark": _mark(call), "did": done}


def _is_waiting(known: Any) -> bool:
    return is_dict(known) and known.get("did") == _WAITING


def _raised(error: BaseException) -> JsonValue:
    """An error as data, with its empty fields too: version 0.2.0 requires all five."""
    return asdict(RaisedError.of(error))


def _kept(result: ToolResult) -> JsonValue:
    """A result as it is recorded; None for one that is not. A failure of a call that must not be made again
    is its result from then on.
    """
    done: dict[str, JsonValue] = {"ms": result.duration_ms, "finish": result.finish}
    if result.error is not None:
        return {"value": f"Error: {result.error}", **done}
    try:
        parts = {"parts": to_plain(list(result.parts))} if result.parts else {}
        return {"value": to_plain(result.value), **done, **parts}
    except CodecError:
        return None  # a value that is no data: the loop will say so


def _result(known: Any, call: ToolCall) -> ToolResult:
    """The recorded result of a call, as it was."""
    done = known["did"] if is_dict(known) and "mark" in known else known
    if done == _INTENT:
        return ToolResult(call.id, call.name, f"Error: {unknown_outcome(call.name)}.")
    if "raised" in done:
        error = from_plain(RaisedError, done["raised"]).revived_for(call)
        return ToolResult(call.id, call.name, None, error, done["ms"])
    parts: list[Part] = [from_plain(cast("Any", Part), one) for one in done.get("parts", ())]
    return ToolResult(call.id, call.name, done["value"], None, done["ms"], done["finish"], tuple(parts))
