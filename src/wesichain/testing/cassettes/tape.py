"""The tape: returns recorded replies and results to the runs of a test, and refuses other requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from wesichain.agent.internal import RaisedError
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    ModelResponded,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
)
from wesichain.core.internal import HandedOff, ToolsOffered, Value, common_prefix, dump_json, field, to_plain
from wesichain.errors import ReplayMismatchError
from wesichain.tools import ToolResult
from wesichain.trace import Recording, Redactor

from .file import call_in


class _Exchange(Value):
    """A request to a model, with its reply or error."""

    __aside__: ClassVar[tuple[str, ...]] = ("reply",)

    messages: Sequence[Message]
    key: str
    reply: LlmResponse | StepFailed = field()


class Tape:
    """Finds recorded answers by the content of a request: the order of concurrent runs does not matter."""

    def __init__(self, runs: Iterable[Recording]) -> None:
        self._redactor = Redactor()
        self._exchanges: list[_Exchange] = []
        # Calls by their key and agent: in a cassette, the name of the agent of an outermost run is not known.
        self._results: list[tuple[str, str, ToolCompleted | StepFailed]] = []
        self._tools: dict[str, list[Any]] = {}  # several agents may have different tools with one name
        self._entered: set[tuple[str, str]] = set()
        for run in runs:
            for scope in run.scopes:
                self._read_scope(run, scope)

    def is_entered(self, call: ToolCall, path: Sequence[str], agent: str) -> bool:
        """Whether the call contains runs of agents: then its code runs again, and these runs are replayed.

        `path` has the ids of the calls around it, outermost first.
        """
        return (self._call_key(call, path), agent if path else "") in self._entered

    def _read_scope(self, run: Recording, scope: str) -> None:
        requests = iter(run.requests(scope))
        asked: LlmRequest | None = None
        calls: dict[str, ToolCall] = {}
        path = _path_of(scope)
        inside = {call_in(one, scope) for one in run.scopes}
        agent = ""
        for event in run.events:
            if event.scope != scope:
                continue
            match event:
                case RunStarted(tools=tools) | ToolsOffered(tools=tools) | HandedOff(tools=tools):
                    self._add_tools(tools)
                    agent = _acting_agent(event, agent)
                case StepStarted():
                    asked = next(requests)
                case ModelResponded(response=response) if asked is not None:
                    self._record(asked, response)
                    asked = None if not event.set_aside else asked
                case StepFailed(call_id=None) if asked is not None:
                    self._record(asked, event)
                    asked = None
                case ToolDispatched(call=call):
                    calls[call.id] = call
                    if call.id in inside:
                        self._entered.add((self._call_key(call, path), agent))
                case ToolCompleted(call_id=call_id) if call_id in calls:
                    self._results.append((self._call_key(calls[call_id], path), agent, event))
                case StepFailed(call_id=str() as call_id) if call_id in calls and event.error:
                    if event.decision not in ("waiting", "cancelled", "not_begun"):
                        self._results.append((self._call_key(calls[call_id], path), agent, event))
                case _:
                    pass

    def _add_tools(self, specs: Iterable[ToolSpec]) -> None:
        for spec in specs:
            self._tools.setdefault(spec.name, []).append(self._plain(spec))

    def _record(self, request: LlmRequest, reply: LlmResponse | StepFailed) -> None:
        self._exchanges.append(_Exchange(request.messages, self._key(request.messages), reply))

    def _plain(self, value: object) -> Any:
        return self._redactor.value(to_plain(value))

    def _key(self, messages: Sequence[Message]) -> str:
        return dump_json(self._plain([*messages]))

    def _call_key(self, call: ToolCall, path: Sequence[str]) -> str:
        return dump_json([[*path], self._plain(call)])

    # --- replies and results -------------------------------------------------------------------------

    def reply(self, request: LlmRequest) -> LlmResponse:
        """Return the recorded reply to a request. Another request raises a `ReplayMismatchError`."""
        for spec in request.tools:
            then, now = self._tools.get(spec.name, []), self._plain(spec)
            if now not in then:
                what = "has changed" if then else "is new"
                raise ReplayMismatchError(
                    f"the tool {spec.name!r} {what} since the cassette was recorded{_HINT}",
                    expected=then[0] if then else None,
                    actual=now,
                )
        key = self._key(request.messages)
        for place, exchange in enumerate(self._exchanges):
            if exchange.key == key:
                del self._exchanges[place]
                return _replay_reply(exchange.reply)
        raise self._mismatch(request.messages)

    def _mismatch(self, messages: Sequence[Message]) -> ReplayMismatchError:
        if not self._exchanges:
            return ReplayMismatchError(f"the model is called more often than in the cassette{_HINT}")
        now: list[Any] = [self._plain(message) for message in messages]
        alike = max(self._exchanges, key=lambda one: common_prefix(self._plain([*one.messages]), now))
        then: list[Any] = self._plain([*alike.messages])
        place = common_prefix(then, now)
        expected = then[place] if place < len(then) else None
        actual = now[place] if place < len(now) else None
        where = f"message {place + 1} of the request"
        return ReplayMismatchError(
            f"{where} differs from the cassette: expected {_short(expected)}, got {_short(actual)}{_HINT}",
            expected=expected,
            actual=actual,
        )

    def result(self, call: ToolCall, path: Sequence[str], agent: str) -> ToolResult:
        """Return the recorded result of a call. Another call raises a `ReplayMismatchError`."""
        key, owner = self._call_key(call, path), agent if path else ""
        found = [one for one in self._results if one[0] == key]
        if found:  # the agent is not known of a tool without a context, which cannot have run agents
            best = max(found, key=lambda one: (one[1] == owner, (key, one[1]) not in self._entered))
            self._results.remove(best)
            return _result(call, best[2])
        raise ReplayMismatchError(
            f"the call {call.name!r} with {_short(to_plain(call.args))} is not in the cassette{_HINT}",
            actual=call,
        )


_HINT = "; record it again with 'pytest --wesichain=record', or compare with '--wesichain=drift'"


def _acting_agent(event: RunStarted | ToolsOffered | HandedOff, before: str) -> str:
    """The agent of an inner run that acts after an event; "" in an outermost run."""
    if isinstance(event, HandedOff) and event.scope:
        return event.target
    return event.agent if isinstance(event, RunStarted) and event.scope and not event.resumed else before


def _path_of(scope: str) -> tuple[str, ...]:
    """The ids of the calls in a scope, without the numbers of attempts and runs."""
    return tuple(part.partition("#")[0] for part in scope.split("/") if part and not part.startswith("~"))


def _short(value: Any) -> str:
    text = "nothing" if value is None else dump_json(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def _replay_reply(reply: LlmResponse | StepFailed) -> LlmResponse:
    if isinstance(reply, LlmResponse):
        return reply
    raise RaisedError.in_event(reply).revived()


def _result(call: ToolCall, event: ToolCompleted | StepFailed) -> ToolResult:
    if isinstance(event, ToolCompleted):
        return ToolResult(call.id, call.name, event.value, finish=event.finish, parts=event.parts)
    error = RaisedError(event.error, event.message, cause=event.cause).revived_for(call)
    return ToolResult(call.id, call.name, None, error)
