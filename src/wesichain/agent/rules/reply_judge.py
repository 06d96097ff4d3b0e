"""Replies: decides whether a reply is an answer, calls to run, malformed or paused, for all models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from wesichain.core import LlmResponse, ToolCall, ToolSpec, Usage
from wesichain.core.internal import Value, is_object, replace
from wesichain.errors import (
    CodecError,
    ConfigError,
    InvalidModelActionError,
    ModelRefusedError,
    ToolDispatchError,
    TruncatedReplyError,
)
from wesichain.tools import ToolRegistry
from wesichain.tools.internal import PreparedCall

from .answers import OutputForm

OutT = TypeVar("OutT")


class Answer(Value, Generic[OutT]):
    """A valid final answer."""

    output: OutT
    text: str
    reply: LlmResponse
    call_id: str | None = None  # of the call of a final tool that has the answer


class Rejected(Value):
    """A call that cannot be run, with the error."""

    call: ToolCall
    error: InvalidModelActionError


class CallPlan(Value):
    """Calls to run, in order; `reply` has them with ids that are unique in the run."""

    reply: LlmResponse
    calls: Sequence[PreparedCall | Rejected | None]  # None: the log says what came of it
    is_flawed: bool = False  # whether some of them cannot be run


class Malformed(Value):
    """A reply that is neither an answer nor calls to run. `reply` is its part for the history.

    If it has calls, they are invalid answers: `errors` has the error of each call, or None.
    """

    reply: LlmResponse
    error: InvalidModelActionError
    errors: Sequence[InvalidModelActionError | None] = ()


class Pause(Value):
    """A reply that the provider paused: the model is called again with its text so far."""

    reply: LlmResponse


Verdict: TypeAlias = Answer[OutT] | CallPlan | Malformed | Pause


class ReplyJudge(Value, Generic[OutT]):
    """Judges replies for one runtime, with the tools that a model may call and the form of an answer."""

    registry: ToolRegistry
    output: OutputForm[OutT]
    final_names: frozenset[str]
    offered: tuple[ToolSpec, ...]  # the tools, and those for a typed answer

    def with_tools(self, registry: ToolRegistry) -> ReplyJudge[OutT]:
        """A copy with other tools."""
        return replace(self, registry=registry, offered=registry.specs() + self.output.final_tools)

    def judge(
        self,
        reply: LlmResponse,
        *,
        step_id: int,
        used_ids: Collection[str],
        excluded: Collection[str],
        is_settled: Callable[[str], bool] | None = None,
    ) -> Verdict[OutT]:
        """What a reply is. A call that `is_settled`, by its id, is not checked again."""
        if not is_response(reply):
            return Malformed(LlmResponse(), _invalid(_shape_flaw(reply), reply, step_id))
        calls = reply.tool_calls
        if not calls:
            return self._without_calls(reply, step_id)
        has_new_ids = len(calls) == 1 or len({call.id for call in calls if is_call(call)}) == len(calls)
        for call in calls:
            if not is_call(call):
                return Malformed(LlmResponse(), _invalid(_call_flaw(call), reply, step_id))
            if not call.name:  # from the adapter of a text model that could not parse the reply
                message = reply.reasoning or "a tool call has no name"
                return Malformed(replace(reply, tool_calls=()), _invalid(message, reply, step_id, call))
            if not call.id or call.id in used_ids:
                has_new_ids = False
        if not has_new_ids:
            reply = _with_unique_ids(reply, step_id, used_ids)
        if self.final_names and not self.final_names.isdisjoint([call.name for call in calls]):
            return self._final_call(reply, step_id)
        if is_settled is not None and any(is_settled(call.id) for call in reply.tool_calls):
            return self._half_settled(reply, step_id, excluded, is_settled)
        ready: list[PreparedCall] = []
        for call in reply.tool_calls:
            prepared = (
                self._prepare(call, reply, step_id, excluded) if excluded else self.registry.prepare(call)
            )
            if not isinstance(prepared, PreparedCall):
                if not isinstance(prepared, Rejected):
                    prepared = self._rejected(call, reply, step_id, prepared)
                rest = reply.tool_calls[len(ready) + 1 :]
                others = [self._prepare(later, reply, step_id, excluded) for later in rest]
                return CallPlan(reply, [*ready, prepared, *others], is_flawed=True)
            ready.append(prepared)
        return CallPlan(reply, ready)

    def _half_settled(
        self,
        reply: LlmResponse,
        step_id: int,
        excluded: Collection[str],
        is_settled: Callable[[str], bool],
    ) -> CallPlan:
        """The plan for a reply some of whose calls the log knows."""
        found = [
            None if is_settled(call.id) else self._prepare(call, reply, step_id, excluded)
            for call in reply.tool_calls
        ]
        return CallPlan(reply, found, any(isinstance(one, Rejected) for one in found))

    def prepare(self, call: ToolCall, step_id: int) -> PreparedCall | Rejected:
        """Check one call again, after an approval or in a resumed run."""
        return self._prepare(call, LlmResponse(tool_calls=(call,)), step_id, ())

    def _without_calls(self, reply: LlmResponse, step_id: int) -> Verdict[OutT]:
        if reply.finish_reason != "stop" or reply.opaque is not None:
            if reply.finish_reason == "pause":
                return Pause(reply)
            flaw = self._incomplete(reply, step_id)
            if flaw is not None:
                return flaw
        if not reply.content.strip():
            return Malformed(reply, _invalid(_EMPTY, reply, step_id))
        return self._text_answer(reply, step_id)

    def _text_answer(self, reply: LlmResponse, step_id: int) -> Answer[OutT] | Malformed:
        try:
            output = self.output.read(reply.content)
        except CodecError as error:
            message = str(error)
            if self.final_names:
                names = " or ".join(repr(spec.name) for spec in self.output.final_tools)
                why = "plain text is not an answer here" if message.startswith("not JSON") else message
                message = f"{why}; call the tool {names} with the answer"
            invalid = _invalid(message, reply, step_id)
            invalid.__cause__ = error
            return Malformed(reply, invalid)
        return Answer(output, reply.content, reply)

    def _incomplete(self, reply: LlmResponse, step_id: int) -> Malformed | None:
        """The error for a reply that was cut off, withheld or refused, and is never an answer; else None."""
        refusal = reply.opaque.get("refusal") if is_object(reply.opaque) else None
        text = reply.content.strip()
        if reply.finish_reason in ("refusal", "content_filter") or (refusal and not text):
            why = f": {refusal or text}" if refusal or text else ""
            who = "the provider's content filter withheld the reply" if not refusal else "the model refused"
            if reply.finish_reason == "refusal":
                who = "the model refused"
            return Malformed(reply, _invalid(f"{who}{why}", reply, step_id, kind=ModelRefusedError))
        if reply.finish_reason == "length":
            when = "before it was whole" if text else "before any text or tool call"
            message = f"the reply was cut off at the token limit {when}; answer more briefly"
            return Malformed(reply, _invalid(message, reply, step_id, kind=TruncatedReplyError))
        return None

    def judge_last_reply(self, reply: Any, *, step_id: int) -> Answer[OutT] | InvalidModelActionError:
        """The answer in the reply to the last request of a run, or the error if it has no complete answer."""
        if not is_response(reply):
            return _invalid(_shape_flaw(reply), reply, step_id)
        calls = tuple(call for call in reply.tool_calls if is_call(call))
        if any(call.name in self.final_names for call in calls):
            found = self._final_call(replace(reply, tool_calls=calls), step_id)
        else:
            incomplete = self._incomplete(reply, step_id)
            if incomplete is None and not reply.content.strip():
                return _invalid(_EMPTY, reply, step_id)
            found = incomplete or self._text_answer(reply, step_id)
        return found.error if isinstance(found, Malformed) else found

    def _final_call(self, reply: LlmResponse, step_id: int) -> Answer[OutT] | Malformed:
        """Return the first valid answer. Other calls in the same reply are not run."""
        if reply.finish_reason in ("refusal", "content_filter"):
            incomplete = self._incomplete(replace(reply, tool_calls=()), step_id)
            assert incomplete is not None
            return incomplete
        errors: list[InvalidModelActionError | None] = []
        for call in reply.tool_calls:
            if call.name not in self.final_names:
                errors.append(None)
                continue
            try:
                output = self.output.read_call(call.name, call.args)
            except CodecError as error:
                if reply.finish_reason == "length":
                    message = (
                        "the answer was cut off at the token limit before it was whole; answer more briefly"
                    )
                    errors.append(_invalid(message, reply, step_id, call, kind=TruncatedReplyError))
                else:
                    invalid = _invalid(str(error), reply, step_id, call)
                    invalid.__cause__ = error
                    errors.append(invalid)
            else:
                return Answer(output, self.output.text_of_call(call.name, call.args), reply, call.id)
        return Malformed(reply, next(error for error in errors if error is not None), errors)

    def refused(self, answer: Answer[Any], cause: Exception, *, step_id: int) -> Malformed:
        """A well-formed answer that a check has refused, as a malformed reply."""
        calls = answer.reply.tool_calls
        call = next((call for call in calls if call.id == answer.call_id), None)
        error = _invalid(str(cause), answer.reply, step_id, call)
        error.__cause__ = cause
        errors = [error if other is call else None for other in calls] if call else []
        return Malformed(answer.reply, error, errors)

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
        return self._rejected(call, reply, step_id, prepared)

    def _rejected(self, call: ToolCall, reply: LlmResponse, step_id: int, why: ToolDispatchError) -> Rejected:
        message = str(why)
        if reply.finish_reason == "length" and isinstance(call.args, str):
            message = f"the arguments of {call.name!r} were cut off at the token limit: be briefer. {message}"
        invalid = _invalid(message, reply, step_id, call)
        invalid.__cause__ = why
        return Rejected(call, invalid)


_EMPTY = "the reply is empty: it has neither text nor a tool call; call a tool or give the answer"


def _invalid(
    message: str,
    reply: object,
    step_id: int,
    call: ToolCall | None = None,
    *,
    kind: type[InvalidModelActionError] = InvalidModelActionError,
) -> InvalidModelActionError:
    return kind(
        message,
        step_id=step_id,
        tool_name=call.name if call else None,
        received_args=call.args if call else None,
        raw_response=reply,
    )


class NotAReply:
    """A stand-in for a recorded value that was no reply: the log has only what is wrong with it."""

    def __init__(self, flaw: str) -> None:
        self.flaw = flaw

    @staticmethod
    def flaw_of(reply: object) -> str:
        """What is wrong with a value that a model returned in place of a reply."""
        return _shape_flaw(reply)

    @staticmethod
    def flaw_of_calls(reply: LlmResponse) -> str:
        """What is wrong with the form of a reply's calls, which no log can hold then; "" if nothing is."""
        for call in reply.tool_calls:
            if not is_call(call):
                return _call_flaw(call)
        return ""


def judge_of(registry: ToolRegistry, output: OutputForm[OutT]) -> ReplyJudge[OutT]:
    """The judge for these tools and this form of answer. No tool may have the name of a final tool."""
    names = frozenset(spec.name for spec in output.final_tools)
    for name in names:
        if name in registry:
            raise ConfigError(f"a tool is named {name!r}, which output_type needs; rename it")
    return ReplyJudge(registry, output, names, registry.specs() + output.final_tools)


def is_response(reply: Any) -> bool:
    """Whether a model returned a response. Only the types are checked."""
    if reply.__class__ is not LlmResponse and not isinstance(reply, LlmResponse):
        return False
    return reply.content.__class__ is str and reply.usage.__class__ is Usage


def is_call(call: Any) -> bool:
    return isinstance(call, ToolCall) and type(call.name) is str and type(call.id) is str


def _shape_flaw(reply: Any) -> str:
    if isinstance(reply, NotAReply):
        return reply.flaw
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
    """The reply with new ids for calls that have none, or one that was used before in the run."""
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
