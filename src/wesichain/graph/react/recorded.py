"""Effects with a record: an agent in a node that runs again repeats no model call and no tool call.

When a node runs again, because its process was killed or an attempt failed, the agent receives the replies
and results recorded in its task and continues with real calls where the record ends. An error that ended
the run is not recorded, so its call is made again. An error that the run recovered from is raised again.

A call with `effect="once"` records its intent before it is made. If only the intent is found, the outcome is
unknown, and the model receives that as the result. These records belong to the thread, under the call's
idempotency key: a branch or fork that reaches the same call receives the recorded result. A branch may also
reach a different call with the same key, because its model is called again; that call gets a key of its own.
A call that waits for a run inside it has not ended: it is made again, and that run is resumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, TypeVar, cast

from typing_extensions import override

from wesichain.agent.internal import (
    Caller,
    Effects,
    FixedCaller,
    RaisedError,
    RecordedInput,
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
from wesichain.tools import ToolResult
from wesichain.tools.internal import PreparedCall

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
        """The function that wraps the effects of a run; None if nothing is recorded."""
        return None if self.record is None else self.wrap

    def wrap(self, live: Effects) -> Effects:
        """Wrap the effects. They use the record of the current visit: a run in steps has one for each."""
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
            self._stop(error, "another run has written to its thread")
            raise

    def _undamaged(self, name: str, known: Any) -> Any:
        if known is None or known == _INTENT or is_dict(known):
            return known
        error = CheckpointError(f"the record of {name!r} is damaged: {excerpt(known)}")
        self._stop(error, str(error))
        raise error

    def _stop(self, error: CheckpointError, reason: str) -> None:
        """End the run, whatever its policy decides on errors: the agent did not cause this one."""
        self.failure = error
        self.cancellation.cancel(reason)

    def check(self) -> None:
        """Raise the error of the record that stopped the run, if there was one."""
        if self.failure is not None:
            raise self.failure


class RecordedEffects(Effects):
    """Effects that look in the record of a task first. `prefix` is the path of a run inside a call."""

    def __init__(self, live: Effects, recording: NodeRecording, prefix: str) -> None:
        self._live = live
        self._recording = recording
        self._prefix = prefix
        self._times: Counter[str] = Counter()
        self._failed: dict[str, JsonValue] = {}  # errors by name, which may still end the run
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
        await self._record_survived(list(self._failed))
        before = 0 if self._run is None else self._run.emitter.last_seq
        try:
            reply = await self._live.ask(request, step_id=step_id, on_text=on_text)
        except Exception as error:
            self._failed[name] = {"raised": _raised(error), "spare": self._extra_calls(before)}
            raise
        if not isinstance(cast("object", reply), LlmResponse):
            return reply  # the loop rejects it
        await self._recording.write(name, {"reply": to_plain(reply), "spare": self._extra_calls(before)})
        return reply

    def _recorded_reply(self, known: Any, on_text: Callable[[str], None] | None) -> LlmResponse:
        """Return a recorded reply or raise the recorded error, and emit the extra calls of middleware."""
        spare: list[Event] = [from_plain(cast("Any", Event), one) for one in known.get("spare", ())]
        if self._run is not None:
            reemit_extra_calls(self._run, spare)
        if "raised" in known:
            raise from_plain(RaisedError, known["raised"]).revived()
        reply: LlmResponse = from_plain(LlmResponse, known.get("reply", known))  # or the old format
        if on_text is not None and reply.content:
            on_text(reply.content)
        return reply

    def _extra_calls(self, before: int) -> list[Any]:
        """Return the model calls that middleware has made in this step: they are charged as well."""
        return (
            [] if self._run is None else [to_plain(event) for event in extra_call_events(self._run, before)]
        )

    async def _record_survived(self, names: list[str]) -> None:
        """Record errors that did not end the run, so that it takes the same steps when it is repeated."""
        for name in names:
            await self._recording.write(name, self._failed.pop(name))

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        tool, call = prepared.tool, prepared.call
        if tool.is_agent and tool.effect != "once":  # its calls have records of their own
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
        await self._record_survived([failed for failed in self._failed if failed.startswith(f"{place} ")])
        if once is not None:
            await self._recording.write(name, _marked(_INTENT, call), once=once)
        result = await self._live.call(prepared, caller)
        if ctx.link is not None and ctx.link.waits(result.error):
            if once is not None:  # replaces its intent
                await self._recording.write(name, _marked(_WAITING, call), once=once)
        elif result.error is not None and once is None:
            self._failed[name] = {"raised": _raised(result.error), "ms": result.duration_ms}
        elif (done := _kept(result)) is not None:
            await self._recording.write(name, done if once is None else _marked(done, call), once=once)
        return result

    async def _run_agent(
        self, prepared: PreparedCall, caller: Caller, name: str, once: str | None
    ) -> ToolResult:
        """Run an agent that is a tool. Its calls have records of their own, so it is resumed and needs no
        intent; its result is recorded for branches.
        """
        result = await self._live.call(prepared, caller)
        if result.error is None and (done := _kept(result)) is not None:
            await self._recording.write(name, _marked(done, prepared.call), once=once)
        return result

    def _once(self, key: str, call: ToolCall) -> tuple[str, Any]:
        """Return the id of the record of a call with `effect="once"`, and the record."""
        found = self._recording.read_once(key)
        if not is_dict(found) or found.get("mark") == _mark(call):
            return key, found
        other = f"{key}~{_mark(call)}"  # another branch used the key for a different call
        return other, self._recording.read_once(other)

    @override
    async def remember(self, entry: RecordedInput[T], make: Callable[[], Awaitable[T]]) -> T:
        """Return the recorded result of `make`, or call it. Checks and offers of tools are made again."""
        if entry.verb not in ("instruct", "advise", "read", "approve"):
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
    """Distinguish calls that have the same key."""
    return sha256(f"{call.name} {dump_json(call.args)}".encode()).hexdigest()[:16]


def _marked(done: JsonValue, call: ToolCall) -> JsonValue:
    return {"mark": _mark(call), "did": done}


def _is_waiting(known: Any) -> bool:
    return is_dict(known) and known.get("did") == _WAITING


def _raised(error: BaseException) -> JsonValue:
    """An error as data, with its empty fields too: version 0.2.0 requires all five."""
    return asdict(RaisedError.of(error))


def _kept(result: ToolResult) -> JsonValue:
    """Return a result as data; None if it cannot be recorded. The error of a call that must not be repeated
    is recorded as its result.
    """
    done: dict[str, JsonValue] = {"ms": result.duration_ms, "finish": result.finish}
    if result.error is not None:
        return {"value": f"Error: {result.error}", **done}
    try:
        parts = {"parts": to_plain(list(result.parts))} if result.parts else {}
        return {"value": to_plain(result.value), **done, **parts}
    except CodecError:
        return None  # the loop rejects a value that is not data


def _result(known: Any, call: ToolCall) -> ToolResult:
    """Rebuild the recorded result of a call."""
    done = known["did"] if is_dict(known) and "mark" in known else known
    if done == _INTENT:
        return ToolResult(call.id, call.name, f"Error: {unknown_outcome(call.name)}.")
    if "raised" in done:
        error = from_plain(RaisedError, done["raised"]).revived_for(call)
        return ToolResult(call.id, call.name, None, error, done["ms"])
    parts: list[Part] = [from_plain(cast("Any", Part), one) for one in done.get("parts", ())]
    return ToolResult(call.id, call.name, done["value"], None, done["ms"], done["finish"], tuple(parts))
