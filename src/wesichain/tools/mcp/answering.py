"""Answering: what a server asks of its client: a person's word, by a function or by the run; a model's."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

from wesichain.core import Decision, Message, Provide, Question, Role, is_array, is_object
from wesichain.errors import ToolError
from wesichain.tools.json_schema.compile import validate

from .held import CANNOT, HeldCall, HeldCalls, OpenQuestion
from .incoming import read_content
from .offer import OnElicit
from .sdk import types

Elicited: TypeAlias = types.ElicitResult | types.ErrorData
Sampled: TypeAlias = types.CreateMessageResult | types.ErrorData


async def answer(ask: OnElicit, _: object, params: types.ElicitRequestParams) -> Elicited:
    """The person's answer, with the defaults of what they left out; what does not fit is not sent."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")  # to visit a page is not ours to do
    question = _question(params)
    try:
        given = await ask(params.message, params.requested_schema)
    except Exception as error:  # noqa: BLE001  # a callback of the user's; the server is not told what it was
        return types.ErrorData(
            code=types.INTERNAL_ERROR, message=f"the question failed: {type(error).__name__}"
        )
    return types.ElicitResult(action="decline") if given is None else _accepted(question, given)


async def answer_by_run(calls: HeldCalls, _: object, params: types.ElicitRequestParams) -> Elicited:
    """The answer that the run of the call gets: it ends as interrupted, and goes on with it."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")
    held = await calls.asker()
    if isinstance(held, str):
        return _error(held)
    if not hasattr(_link(held), "ask"):
        return _error(f"{CANNOT}: the call is not part of a run")
    asked = held.open(_question(params))
    try:
        decision = await asked.answer
    finally:
        held.close(asked)
    match decision:
        case Provide(value=value, error=None) if is_object(value):
            return _accepted(asked.question, value)
        case Provide():
            return types.ElicitResult(action="cancel")
        case _:
            return types.ElicitResult(action="decline")


async def decide(held: HeldCall, asked: OpenQuestion) -> Decision:
    """The caller's answer to a question of the call; a run that does not know it yet raises."""
    decision: Any = _link(held).ask(asked.question, asked.number)
    said: Decision = await decision if inspect.isawaitable(decision) else decision
    return said


async def sample_by_run(calls: HeldCalls, _: object, params: types.CreateMessageRequestParams) -> Sampled:
    """The reply of the run's own model, on the run's account and in its log."""
    held = await calls.asker()
    if isinstance(held, str):
        return _error(held)
    link = _link(held)
    if not hasattr(link, "sample"):
        return _error("this client cannot ask a model: the call is not part of a run")
    if params.tools:
        return _error("this client lets its model answer in words alone, without tools")
    try:
        messages = [Message(Role(each.role), _content(each.content)) for each in params.messages]
        if params.system_prompt:
            messages.insert(0, Message(Role.SYSTEM, params.system_prompt))
        text, model = await link.sample(messages, held.ctx)
    except (ToolError, ValueError) as error:
        return _error(str(error))
    said = types.TextContent(text=text)
    return types.CreateMessageResult(role="assistant", content=said, model=model, stop_reason="endTurn")


def _content(blocks: Any) -> Any:
    parts = [read_content(block) for block in (blocks if is_array(blocks) else [blocks])]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else tuple(parts)


def _question(params: types.ElicitRequestFormParams) -> Question:
    return Question(params.message, params.requested_schema)


def _accepted(question: Question, given: Any) -> Elicited:
    content: Any = question.filled(given)
    issues = validate(dict(question.schema), content)
    if issues:
        said = f"the answer does not fit what was asked for: {issues[0]}"
        return types.ErrorData(code=types.INVALID_PARAMS, message=said)
    return types.ElicitResult(action="accept", content=content)


def _link(held: HeldCall) -> Any:
    return None if held.ctx is None else held.ctx.link


def _error(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)
