"""Replies: what the model's reply is, judged once, here, for every kind of model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from wesichain.core import LlmResponse, ToolCall, Usage, dataclass, is_object, maker, text_of
from wesichain.errors import CodecError, InvalidModelActionError
from wesichain.tools import PreparedCall, ToolRegistry

from .output import OutputForm

OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True)
class Answer(Generic[OutT]):
    """The run is done."""

    output: OutT
    text: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """One call that cannot be run, and why."""

    call: ToolCall
    error: InvalidModelActionError


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to run, in order; `reply` has them with ids that are unique in the run."""

    reply: LlmResponse
    calls: list[PreparedCall]


@dataclass(frozen=True, slots=True)
class FlawedPlan:
    """Calls of which some cannot be run."""

    reply: LlmResponse
    calls: Sequence[PreparedCall | Rejected]


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not an action at all. `reply` is what of it may stand in the history."""

    reply: LlmResponse
    error: InvalidModelActionError
    final: bool = False  # nothing that is told to the model can mend it


Verdict: TypeAlias = Answer[OutT] | Plan | FlawedPlan | Malformed

_plan, _answer = maker(Plan), maker(Answer[Any])


@dataclass(frozen=True, slots=True)
class Judge(Generic[OutT]):
    """Judges replies for one runtime."""

    registry: ToolRegistry
    output: OutputForm[OutT]

    def judge(
        self, reply: LlmResponse, *, step_id: int, used_ids: Collection[str], excluded: Collection[str]
    ) -> Verdict[OutT]:
        if not is_response(reply):
            return Malformed(LlmResponse(), _invalid(_shape_flaw(reply), reply, step_id))
        calls = reply.tool_calls
        if not calls:
            return self._without_calls(reply, step_id)
        ids: set[str] = set()
        has_new_ids = True
        for call in calls:
            if not is_call(call):
                return Malformed(LlmResponse(), _invalid(_call_flaw(call), reply, step_id))
            if not call.name:  # text models say so when they cannot read their own reply
                message = reply.reasoning or "a tool call has no name"
                return Malformed(replace(reply, tool_calls=()), _invalid(message, reply, step_id, call))
            if not call.id or call.id in used_ids or call.id in ids:
                has_new_ids = False
            ids.add(call.id)
        final = self.output.final_tool
        if final is not None and any(call.name == final.name for call in calls):
            return self._final_call(reply, final.name, step_id)
        if not has_new_ids:
            reply = _with_unique_ids(reply, step_id, used_ids)
        ready: list[PreparedCall] = []
        for call in reply.tool_calls:
            prepared = self._prepare(call, reply, step_id, excluded)
            if not isinstance(prepared, PreparedCall):
                rest = reply.tool_calls[len(ready) + 1 :]
                others = [self._prepare(later, reply, step_id, excluded) for later in rest]
                return FlawedPlan(reply, [*ready, prepared, *others])
            ready.append(prepared)
        return _plan(reply, ready)

    def prepare(self, call: ToolCall, step_id: int) -> PreparedCall | Rejected:
        """One call, checked anew: after an approval, or when a run goes on in another process."""
        return self._prepare(call, LlmResponse(tool_calls=(call,)), step_id, ())

    def _without_calls(self, reply: LlmResponse, step_id: int) -> Verdict[OutT]:
        refusal = reply.opaque.get("refusal") if is_object(reply.opaque) else None
        if refusal and not reply.content.strip():
            return Malformed(reply, _invalid(f"the model refused: {refusal}", reply, step_id), final=True)
        if not reply.content.strip():
            return Malformed(reply, _invalid(_EMPTY.get(reply.finish_reason, _EMPTY["stop"]), reply, step_id))
        if self.output.final_tool is not None:
            if reply.finish_reason == "content_filter":
                return Malformed(
                    reply, _invalid(f"the model refused: {reply.content}", reply, step_id), final=True
                )
            name = self.output.final_tool.name
            message = f"plain text is not an answer here; call the tool {name!r} with the answer"
            return Malformed(reply, _invalid(message, reply, step_id))
        return self._read(reply, reply.content, reply.content, step_id)

    def _final_call(self, reply: LlmResponse, name: str, step_id: int) -> Verdict[OutT]:
        """The first valid answer wins; other calls beside it are not run."""
        verdict: Verdict[OutT] | None = None
        for call in reply.tool_calls:
            if call.name == name:
                found = self._read(replace(reply, tool_calls=()), call.args, "", step_id)
                if isinstance(found, Answer):
                    return found
                verdict = verdict or found
        assert verdict is not None
        return verdict

    def _read(self, reply: LlmResponse, answer: Any, text: str, step_id: int) -> Verdict[OutT]:
        try:
            output = self.output.read(answer)
        except CodecError as error:
            refusal = reply.finish_reason == "content_filter"
            invalid = _invalid(str(error), reply, step_id)
            invalid.__cause__ = error
            return Malformed(reply, invalid, final=refusal)
        return _answer(output, text or text_of(answer))

    def _prepare(
        self, call: ToolCall, reply: LlmResponse, step_id: int, excluded: Collection[str]
    ) -> PreparedCall | Rejected:
        if excluded and call.name in excluded:
            others = ", ".join(name for name in self.registry.names if name not in excluded) or "none"
            message = f"tool {call.name!r} is not available any more in this run; other tools: {others}"
            return Rejected(call, _invalid(message, reply, step_id, call))
        prepared = self.registry.prepare(call)
        if isinstance(prepared, PreparedCall):
            return prepared
        message = str(prepared)
        if reply.finish_reason == "length" and isinstance(call.args, str):
            message = f"the arguments of {call.name!r} were cut off at the token limit: be briefer. {message}"
        invalid = _invalid(message, reply, step_id, call)
        invalid.__cause__ = prepared
        return Rejected(call, invalid)


_EMPTY = {
    "stop": "the reply is empty: it has neither text nor a tool call; call a tool or give the answer",
    "length": "the reply was cut off at the token limit before any text or tool call; answer more briefly",
    "content_filter": "the provider's content filter withheld the reply; put it in other words",
}


def _invalid(
    message: str, reply: object, step_id: int, call: ToolCall | None = None
) -> InvalidModelActionError:
    return InvalidModelActionError(
        message,
        step_id=step_id,
        tool_name=call.name if call else None,
        received_args=call.args if call else None,
        raw_response=reply,
    )


def is_response(reply: Any) -> bool:
    """Whether a model returned what the protocol says it does, on the outside: it may be anybody's code."""
    return isinstance(reply, LlmResponse) and type(reply.content) is str and type(reply.usage) is Usage


def is_call(call: Any) -> bool:
    return isinstance(call, ToolCall) and type(call.name) is str and type(call.id) is str


def _shape_flaw(reply: Any) -> str:
    if not isinstance(reply, LlmResponse):
        return f"the model returned {type(reply).__name__}, not an LlmResponse"
    if type(reply.content) is not str:
        return f"the reply's content is {type(reply.content).__name__}, not text"
    return f"the reply's usage is {type(reply.usage).__name__}, not Usage(input_tokens, output_tokens)"


def _call_flaw(call: Any) -> str:
    if not isinstance(call, ToolCall):
        return f"the reply holds {type(call).__name__} {str(call)[:80]!r} where a ToolCall should be"
    return f"the name and the id of a tool call are text, not {call.name!r} and {call.id!r}"


def _with_unique_ids(reply: LlmResponse, step_id: int, used_ids: Collection[str]) -> LlmResponse:
    """The reply with an id for every call that has none, or one that was used before in the run."""
    taken = set(used_ids)
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.tool_calls):
        fresh = call.id
        if not fresh or fresh in taken:
            fresh = f"call_{step_id}_{index}"
            while fresh in taken:
                fresh += "_x"
        taken.add(fresh)
        calls.append(call if fresh == call.id else replace(call, id=fresh))
    return replace(reply, tool_calls=tuple(calls))
