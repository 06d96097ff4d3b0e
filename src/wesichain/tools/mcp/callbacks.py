"""Callbacks: handle the requests of a server to the client: elicitation and sampling."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from wesichain.core import LlmRequest, Message, Role, ToolCallingLlm
from wesichain.core.internal import Decision, Provide, Question, Value, is_array, is_object
from wesichain.errors import ConfigError, ToolError, WesichainError
from wesichain.tools.json_schema.compile import validate

from .decode import read_content
from .inflight import CANNOT_ASK, InFlightCall, InFlightCalls, OpenQuestion
from .sdk import types
from .text import bounded

ElicitResponse: TypeAlias = types.ElicitResult | types.ErrorData
SampleResponse: TypeAlias = types.CreateMessageResult | types.ErrorData
_MAX_QUESTION = 20_000  # bytes
CONSENT: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
}


class OnElicit(Protocol):
    """Asks the user a server's question. Returns the answers by name, or None to decline.

    Fields with a default in the schema can be left out. Answers that do not match the schema are not sent.
    """

    def __call__(self, message: str, schema: Mapping[str, Any], /) -> Awaitable[Mapping[str, Any] | None]: ...


class Sampling(Value):
    """Lets a server call a model, within limits.

    `llm=None` is the model of the run that the call is part of: its requests are in the run's log and spend
    from its budget, which those of another `llm` are not. One call of a tool can make `requests` requests of
    at most `max_input` characters; replies are cut at `max_output` characters. `approval=True` requires human
    approval for each request: by `on_elicit` if it is given, otherwise by a pending question of the run.
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
    """The handlers for one server: `elicit` and `sample` are called by the SDK."""

    _server: str
    _calls: InFlightCalls
    _on_elicit: OnElicit | None
    _sampling: Sampling | None

    # --- elicitation -----------------------------------------------------------------------------

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> ElicitResponse:
        """Return the user's answer, from `on_elicit` or from the run, which is interrupted until then."""
        del context
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")  # URLs cannot be opened
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
        """Return the user's decision; None if they decline. Raises `ToolError` if nobody can be asked."""
        if self._on_elicit is None:
            return await (await self._run_call()).ask(question)
        try:
            answer = await self._on_elicit(question.message, question.schema)
        except Exception as error:  # the server does not receive the message, which may be private
            raise ToolError(f"the question failed: {type(error).__name__}") from error
        return None if answer is None else Provide(dict(answer))

    async def _run_call(self) -> InFlightCall:
        """Return the call that the question belongs to, which has to be part of a run."""
        call = await self._calls.owner()
        if isinstance(call, str):
            raise ToolError(call)
        if not hasattr(_link(call), "ask"):
            raise ToolError(f"{CANNOT_ASK}: the call is not part of a run")
        return call

    # --- sampling --------------------------------------------------------------------------------

    async def sample(self, context: object, params: types.CreateMessageRequestParams) -> SampleResponse:
        """Return the reply of a model, if `sampling` allows it."""
        del context
        if self._sampling is None:
            return _error("this client has no model for servers")
        try:
            return await self._reply(self._sampling, params)
        except (WesichainError, ValueError) as error:
            return _error(bounded(str(error), 2_000))

    async def _reply(self, sampling: Sampling, params: types.CreateMessageRequestParams) -> SampleResponse:
        if params.tools:
            return _error("this client does not support tools in sampling")
        messages = _messages(params)
        size = sum(len(message.text) for message in messages)
        if size > sampling.max_input:
            return _error(f"the request has {size:,} characters; the limit is {sampling.max_input:,}")
        call = await self._calls.owner()
        if isinstance(call, str):
            return _error(call)
        if call.samples >= sampling.requests:
            return _error(f"this call has made {call.samples} sampling requests, the limit of this client")
        call.samples += 1
        if sampling.approval and not await self._is_approved(messages):
            return _error("the user did not approve the request")
        text, model, reason = await _call_model(sampling.llm, messages, call)
        if len(text) > sampling.max_output:
            text, reason = text[: sampling.max_output], "maxTokens"
        content = types.TextContent(text=text)
        return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)

    async def _is_approved(self, messages: Sequence[Message]) -> bool:
        text = "\n".join(f"{message.role.value}: {message.text}" for message in messages)
        prompt = f"Let the MCP server {self._server!r} call a model?\n{bounded(text, _MAX_QUESTION - 500)}"
        decision = await self._decision(Question(prompt, CONSENT))
        return (
            isinstance(decision, Provide)
            and is_object(decision.value)
            and decision.value.get("approve") is True
        )


async def decide(call: InFlightCall, open_question: OpenQuestion) -> Decision:
    """Return the run's answer to a question. Raises `RunInterruptedError` if there is none yet."""
    decision: Any = _link(call).ask(open_question.question, open_question.number)
    answer: Decision = await decision if inspect.isawaitable(decision) else decision
    return answer


async def _call_model(
    llm: ToolCallingLlm | None, messages: Sequence[Message], call: InFlightCall
) -> tuple[str, str, str]:
    """Return the text of a model's reply, the name of the model, and the stop reason."""
    if llm is None:
        link = _link(call)
        if not hasattr(link, "sample"):
            raise ToolError("this client cannot call a model: the call is not part of a run")
        text, model = await link.sample(messages, call.ctx)
        return text, model, "endTurn"
    name = str(getattr(llm, "model", "") or type(llm).__name__)
    response = await llm.complete(LlmRequest(name, messages))
    if response.finish_reason not in ("stop", "length") or not response.content:
        raise ToolError(f"the model did not reply: {response.finish_reason}")
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


def _accepted(question: Question, answer: Any) -> ElicitResponse:
    content: Any = question.filled(answer)
    issues = validate(dict(question.schema), content)
    if issues:
        why = f"the answer does not match the schema: {issues[0]}"
        return types.ErrorData(code=types.INVALID_PARAMS, message=why)
    return types.ElicitResult(action="accept", content=content)


def _link(call: InFlightCall) -> Any:
    return None if call.ctx is None else call.ctx.link


def _error(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)
