"""Callbacks: the client's answers to what a server asks of it: a person's answer, or a model's reply."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from wesichain.core import LlmRequest, Message, Role, ToolCallingLlm
from wesichain.core.internal import Decision, Provide, Question, Value, is_array, is_object
from wesichain.errors import ConfigError, ToolError, WesichainError
from wesichain.tools.json_schema.compile import validate

from .decode import read_content
from .inflight import CANNOT, InFlightCall, InFlightCalls, OpenQuestion
from .sdk import types
from .text import bounded

Elicited: TypeAlias = types.ElicitResult | types.ErrorData
Sampled: TypeAlias = types.CreateMessageResult | types.ErrorData
_MAX_QUESTION = 20_000  # bytes of a question that a person is shown
CONSENT: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
}


class OnElicit(Protocol):
    """Asks a person what a server wants to know: returns the answers by name, or None to decline.

    A field that has a default in the schema may be left out; an answer that does not fit it is not sent.
    """

    def __call__(self, message: str, schema: Mapping[str, Any], /) -> Awaitable[Mapping[str, Any] | None]: ...


class Sampling(Value):
    """Lets a server call a model, within limits.

    `llm` replies; None is the model of the run whose call asks, on that run's budget and in its log
    (a given `llm` is outside of both). One call of a tool may ask `requests` times, each time with at most
    `max_input` characters; a reply is cut at `max_output` characters. With `approval=True` a person is asked
    before each request: by `on_elicit` where it is given, else by a pending question of the run.
    """

    llm: ToolCallingLlm | None = None
    requests: int = 10
    max_input: int = 100_000
    max_output: int = 100_000
    approval: bool = False

    def __post_init__(self) -> None:
        if min(self.requests, self.max_input, self.max_output) < 1:
            raise ConfigError("the limits of Sampling have to be 1 or more")


class Callbacks(Value):
    """What one server may ask for: `elicit` and `sample` are called by the SDK."""

    _server: str
    _calls: InFlightCalls
    _on_elicit: OnElicit | None
    _sampling: Sampling | None

    # --- elicitation -----------------------------------------------------------------------------

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> Elicited:
        """The answer of a person, by `on_elicit` or by the run, which is interrupted until it is given."""
        del context
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")  # a page to visit: nobody here can
        question = Question(bounded(params.message, _MAX_QUESTION), params.requested_schema)
        try:
            decision = await self._decision(question)
        except ToolError as error:
            return _error(str(error))
        match decision:
            case Provide(value=value, error=None) if is_object(value):
                return _accepted(question, value)
            case Provide():
                return types.ElicitResult(action="cancel")
            case _:
                return types.ElicitResult(action="decline")

    async def _decision(self, question: Question) -> Decision | None:
        """What a person decides; None where they decline. Raises `ToolError` where nobody can be asked."""
        if self._on_elicit is None:
            return await (await self._run_call()).ask(question)
        try:
            given = await self._on_elicit(question.message, question.schema)
        except Exception as error:  # a callback of the user's; the server is not told what went wrong
            raise ToolError(f"the question failed: {type(error).__name__}") from error
        return None if given is None else Provide(dict(given))

    async def _run_call(self) -> InFlightCall:
        """The call that the server asks in the middle of, which is part of a run."""
        call = await self._calls.owner()
        if isinstance(call, str):
            raise ToolError(call)
        if not hasattr(_link(call), "ask"):
            raise ToolError(f"{CANNOT}: the call is not part of a run")
        return call

    # --- sampling --------------------------------------------------------------------------------

    async def sample(self, context: object, params: types.CreateMessageRequestParams) -> Sampled:
        """The reply of a model, where `sampling` allows it."""
        del context
        if self._sampling is None:
            return _error("this client has no model for servers")
        try:
            return await self._sampled(self._sampling, params)
        except (WesichainError, ValueError) as error:
            return _error(bounded(str(error), 2_000))

    async def _sampled(self, allowed: Sampling, params: types.CreateMessageRequestParams) -> Sampled:
        if params.tools:
            return _error("this client lets its model reply in words alone, without tools")
        messages = _messages(params)
        size = sum(len(message.text) for message in messages)
        if size > allowed.max_input:
            return _error(f"the request has {size:,} characters; this client allows {allowed.max_input:,}")
        call = await self._calls.owner()
        if isinstance(call, str):
            return _error(call)
        if call.samples >= allowed.requests:
            return _error(f"this call has asked a model {call.samples} times; this client allows no more")
        call.samples += 1
        if allowed.approval and not await self._approved(messages):
            return _error("the user did not approve the request")
        text, model, reason = await _reply(allowed.llm, messages, call)
        if len(text) > allowed.max_output:
            text, reason = text[: allowed.max_output], "maxTokens"
        content = types.TextContent(text=text)
        return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)

    async def _approved(self, messages: Sequence[Message]) -> bool:
        text = "\n".join(f"{message.role.value}: {message.text}" for message in messages)
        asked = f"Let the MCP server {self._server!r} ask a model this?\n{bounded(text, _MAX_QUESTION - 500)}"
        decision = await self._decision(Question(asked, CONSENT))
        return (
            isinstance(decision, Provide)
            and is_object(decision.value)
            and decision.value.get("approve") is True
        )


async def decide(call: InFlightCall, asked: OpenQuestion) -> Decision:
    """The run's answer to a question of its call; a run that does not know it yet raises."""
    decision: Any = _link(call).ask(asked.question, asked.number)
    answer: Decision = await decision if inspect.isawaitable(decision) else decision
    return answer


async def _reply(
    llm: ToolCallingLlm | None, messages: Sequence[Message], call: InFlightCall
) -> tuple[str, str, str]:
    """The text of a model's reply, the model's name, and why the reply ended."""
    if llm is None:
        link = _link(call)
        if not hasattr(link, "sample"):
            raise ToolError("this client cannot ask a model: the call is not part of a run")
        text, model = await link.sample(messages, call.ctx)
        return text, model, "endTurn"
    name = str(getattr(llm, "model", "") or type(llm).__name__)
    response = await llm.complete(LlmRequest(name, messages))
    if response.finish_reason not in ("stop", "length") or not response.content:
        raise ToolError(f"the model gave no reply: {response.finish_reason}")
    return response.content, name, "endTurn" if response.finish_reason == "stop" else "maxTokens"


def _messages(params: types.CreateMessageRequestParams) -> list[Message]:
    messages = [Message(Role(each.role), _content(each.content)) for each in params.messages]
    if not messages:
        raise ToolError("the request has no messages")
    if params.system_prompt:
        messages.insert(0, Message(Role.SYSTEM, params.system_prompt))
    return messages


def _content(blocks: Any) -> Any:
    parts = [read_content(block) for block in (blocks if is_array(blocks) else [blocks])]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else tuple(parts)


def _accepted(question: Question, given: Any) -> Elicited:
    content: Any = question.filled(given)
    issues = validate(dict(question.schema), content)
    if issues:
        why = f"the answer does not fit what was asked for: {issues[0]}"
        return types.ErrorData(code=types.INVALID_PARAMS, message=why)
    return types.ElicitResult(action="accept", content=content)


def _link(call: InFlightCall) -> Any:
    return None if call.ctx is None else call.ctx.link


def _error(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)
