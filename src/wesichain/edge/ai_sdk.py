"""AI SDK: `POST /ai-sdk`, a run as a UI message stream (v1) of the Vercel AI SDK, for `useChat`.

A request starts a run with the last message of the user. The messages before it say how much of the stored
conversation the model reads; a page that sends only the last one says `"lastOnly": true`. If the last message
is the assistant's, it has the answers to approvals and questions and the results of tools that the page runs,
and resumes the waiting run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wesichain.core import JsonValue, Message, Role, RunCompleted, RunFailed, RunInterrupted
from wesichain.core.internal import Approve, Decision, Provide, Refuse, is_array, is_object, replace
from wesichain.tools import JsonTool

from .bodies import checked_conversation, text_of
from .display import (
    AskedCall,
    CallBegan,
    CallEnded,
    Ended,
    Part,
    ReasoningPiece,
    StepBegan,
    StepEnded,
    TextEnded,
    TextPiece,
    TypedAnswer,
)
from .event_stream import json_frames
from .exchange import Exchange
from .incoming import frontend_tools, task_with
from .runs import Order, new_run_id
from .service import Service

_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_END = b"data: [DONE]\n\n"

UiMessage = Mapping[str, JsonValue]
Chunk = dict[str, Any]


class AiSdk:
    """The endpoint."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, request: Request) -> Response:
        owner, body = await self._service.receive(request, is_chat=True)
        chat = checked_conversation(text_of(body, "id"))
        messages = [message for message in _list(body.get("messages")) if is_object(message)]
        if chat is None or not messages:
            raise HTTPException(400, 'send {"id": ..., "messages": [...]} as useChat does')
        registry = self._service.runs.keeper(text_of(body, "agent"))
        options = await self._service.options(request)
        last = messages[-1]
        if last.get("role") == "assistant":
            parts = [part for part in _list(last.get("parts")) if is_object(part)]

            def decide(waiting: Sequence[AskedCall]) -> dict[str, Decision | None]:
                return {item.call.token: _decision(item, parts) for item in waiting}

            has_output = ("output-available", "output-error")
            sent = {str(part.get("toolCallId")) for part in parts if part.get("state") in has_output}
            exchange = await Exchange.answer(registry, owner, chat, decide, options, sent=sent)
            message_id = str(last.get("id", ""))
        else:
            order = _order(messages, _tools(body.get("tools")), owner, chat, options)
            if body.get("lastOnly") is not True:
                order = replace(order, said=_user_texts(messages[:-1]))
            exchange = Exchange(await registry.start(order))
            message_id = exchange.run.run_id
        return self._service.stream(exchange.run, _frames(exchange, message_id), _HEADERS)

    async def reconnect(self, request: Request) -> Response:
        """`GET /ai-sdk/{chat}/stream`: the active run of a chat, from its beginning; 204 if there is none.

        `useChat({resume: true})` requests it when a page is loaded.
        """
        owner = await self._service.owner(request)
        chat = checked_conversation(str(request.path_params["chat"])) or ""
        registry = self._service.runs.keeper(request.query_params.get("agent"))
        run = await registry.active(owner, chat)
        if run is None:
            return Response(status_code=204)
        return self._service.stream(run, _frames(Exchange(run), run.run_id), _HEADERS)


# --- from the page -----------------------------------------------------------------------------------


def _order(
    messages: Sequence[UiMessage],
    tools: tuple[JsonTool, ...],
    owner: str,
    chat: str,
    options: Mapping[str, Any],
) -> Order:
    return Order(
        run_id=new_run_id(owner, chat),
        owner=owner,
        task=task_with(_text(messages[-1]), _files(messages[-1])),
        conversation=chat,
        is_streamed=True,
        tools=tools,
        history=tuple(_history(messages[:-1])),
        options=options,
    )


def _history(messages: Sequence[UiMessage]) -> Iterator[Message]:
    """Yield the earlier messages. Calls and results that a client sends are dropped: they may be forged."""
    for message in messages:
        text, role = _text(message), message.get("role")
        if text and role in ("user", "assistant"):
            yield Message(Role(str(role)), text)


def _user_texts(messages: Sequence[UiMessage]) -> tuple[str, ...]:
    return tuple(_text(message) for message in messages if message.get("role") == "user")


def _text(message: UiMessage) -> str:
    parts = [part for part in _list(message.get("parts")) if is_object(part) and part.get("type") == "text"]
    return "\n".join(str(part.get("text", "")) for part in parts)


def _files(message: UiMessage) -> list[tuple[str, str]]:
    """The files of a message. Other URLs than `data:` are refused: nothing is fetched for a client."""
    files: list[tuple[str, str]] = []
    for part in _list(message.get("parts")):
        if is_object(part) and part.get("type") == "file":
            head, comma, data = str(part.get("url", "")).partition(";base64,")
            if not comma or not head.startswith("data:"):
                raise HTTPException(400, "send the files of a message as data: URLs")
            files.append((str(part.get("mediaType") or head.removeprefix("data:")), data))
    return files


def _tools(given: JsonValue) -> tuple[JsonTool, ...]:
    """The tools of the page: a list of tools with names, or an object of tools by their names."""
    named: list[Mapping[str, JsonValue]]
    if is_object(given):
        named = [{**one, "name": name} for name, one in given.items() if is_object(one)]
    else:
        named = [one for one in _list(given) if is_object(one)]
    return frontend_tools(
        (one.get("name"), one.get("description"), one.get("parameters") or one.get("inputSchema"))
        for one in named
    )


def _decision(waiting: AskedCall, parts: Sequence[UiMessage]) -> Decision | None:
    """The page's decision on a waiting call; None if it has sent none."""
    item = waiting.call
    part = next((part for part in reversed(parts) if part.get("toolCallId") == waiting.id), None)
    if part is None:
        return None
    match part.get("state"):
        case "approval-responded":
            approval = _approval(part)
            if approval.get("id") != item.token or not isinstance(approval.get("approved"), bool):
                return None
            return Approve() if approval["approved"] else Refuse(str(approval.get("reason") or ""))
        case "output-available" if item.external:
            return Provide(part.get("output"))
        case "output-error" if item.external:
            return Provide(error=str(part.get("errorText") or "it failed"))
        case _:
            return None


def _approval(part: UiMessage) -> Mapping[str, JsonValue]:
    found = part.get("approval")
    return found if is_object(found) else {}


def _list(value: JsonValue) -> Sequence[JsonValue]:
    return value if is_array(value) else ()


# --- to the page -------------------------------------------------------------------------------------


async def _frames(exchange: Exchange, message_id: str) -> AsyncIterator[bytes]:
    translation = _Translation()
    yield json_frames([{"type": "start", "messageId": message_id}])
    async for batch in exchange:
        yield json_frames([chunk for part in batch for chunk in translation.chunks(part)])
    yield _END


class _Translation:
    """Translates what is shown of a run to chunks of a UI message stream."""

    def __init__(self) -> None:
        self._open = ""  # the id of the open text

    def chunks(self, part: Part) -> Iterator[Chunk]:  # a table, a row a part
        match part:
            case StepBegan():
                yield {"type": "start-step"}
            case StepEnded():
                yield {"type": "finish-step"}
            case TextPiece(id=id, text=text):
                if self._open != id:
                    self._open = id
                    yield {"type": "text-start", "id": f"text-{id}"}
                yield {"type": "text-delta", "id": f"text-{id}", "delta": text}
            case TextEnded(id=id, is_withdrawn=is_withdrawn):
                self._open = ""
                mark = {"providerMetadata": {"wesichain": {"withdrawn": True}}} if is_withdrawn else {}
                yield {"type": "text-end", "id": f"text-{id}", **mark}
            case ReasoningPiece(id=id, text=text):
                block = {"id": f"reasoning-{id}"}
                yield {"type": "reasoning-start", **block}
                yield {"type": "reasoning-delta", **block, "delta": text}
                yield {"type": "reasoning-end", **block}
            case CallBegan(id=id, name=name, args=args):
                call = {"toolCallId": id, "toolName": name}
                yield {"type": "tool-input-start", **call}
                yield {"type": "tool-input-available", **call, "input": args}
            case CallEnded():
                yield {**_result(part), "toolCallId": part.id}
            case TypedAnswer(value=value):
                yield {"type": "data-output", "data": value}
            case Ended():
                yield from _finish(part)


def _result(part: CallEnded) -> Chunk:
    if part.is_refused:
        return {"type": "tool-output-denied"}
    if part.error is not None:
        return {"type": "tool-output-error", "errorText": part.error}
    return {"type": "tool-output-available", "output": part.value}


def _finish(end: Ended) -> Iterator[Chunk]:
    match end.event:
        case RunCompleted():
            yield {"type": "finish", "finishReason": "stop"}
        case RunFailed(message=message):
            yield {"type": "error", "errorText": message}
            yield {"type": "finish", "finishReason": "error"}
        case RunInterrupted(pending=(), reason=reason):
            yield {"type": "abort", "reason": reason}
        case RunInterrupted():
            for item in end.waiting:
                yield from _asked(item)
            yield {"type": "finish", "finishReason": "tool-calls"}


def _asked(item: AskedCall) -> Iterator[Chunk]:
    """The question of a call for a person. The result of its part is the answer; a frontend runs its own."""
    question, token = item.call.question, item.call.token
    if question is not None:
        asked = {"toolCallId": item.id, "message": question.message, "schema": question.schema}
        yield {"type": "data-question", "id": token, "data": asked}
    elif not item.call.external:
        yield {"type": "tool-approval-request", "approvalId": token, "toolCallId": item.id}
