"""AI SDK: `POST /ai-sdk`, a run as a UI message stream (v1) of the Vercel AI SDK, for `useChat`.

A request starts a run with the last message of the user. If the last message is the assistant's, it has the
answers to approvals and the results of tools that the page runs, and resumes the waiting run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wesichain.core import JsonValue, Message, Role, RunCompleted, RunFailed, RunInterrupted, StepStarted
from wesichain.core.internal import Approve, Decision, PendingCall, Provide, Refuse, is_array, is_object
from wesichain.tools import JsonTool

from .bodies import checked_conversation, text_of
from .event_stream import json_frames
from .parts import (
    CallBegan,
    CallEnded,
    Exchange,
    Part,
    ReasoningPiece,
    RunEnded,
    StepEnded,
    TextPiece,
    frontend_tools,
    id_of,
    task_with,
    value_of,
)
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
        owner, body = await self._service.receive(request)
        chat = checked_conversation(text_of(body, "id"))
        messages = [message for message in _list(body.get("messages")) if is_object(message)]
        if chat is None or not messages:
            raise HTTPException(400, 'send {"id": ..., "messages": [...]} as useChat does')
        registry = self._service.runs.keeper(text_of(body, "agent"))
        options = await self._service.options(request)
        last = messages[-1]
        if last.get("role") == "assistant":
            parts = [part for part in _list(last.get("parts")) if is_object(part)]

            def decide(pending: Sequence[PendingCall]) -> dict[str, Decision | None]:
                return {item.token: _decision(item, parts) for item in pending}

            exchange = await Exchange.answer(registry, owner, chat, decide, options)
            message_id = str(last.get("id", ""))
        else:
            order = _order(messages, _tools(body.get("tools")), owner, chat, options)
            exchange = Exchange(await registry.start(order))
            message_id = exchange.run.run_id
        return self._service.stream(exchange.run, _frames(exchange, message_id), _HEADERS)


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


def _decision(item: PendingCall, parts: Sequence[UiMessage]) -> Decision | None:
    """The page's decision on a waiting call; None if it has sent none."""
    part = next((part for part in reversed(parts) if part.get("toolCallId") == id_of(item)), None)
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
    """Translates the parts of one run to chunks of a UI message stream. A text is open during its step."""

    def __init__(self) -> None:
        self._open: str | None = None
        self._has_text = False

    def chunks(self, part: Part) -> Iterator[Chunk]:
        if isinstance(part, TextPiece):
            if self._open is None:
                self._open, self._has_text = f"text-{part.step}", True
                yield {"type": "text-start", "id": self._open}
            yield {"type": "text-delta", "id": self._open, "delta": part.text}
            return
        if self._open is not None:
            yield {"type": "text-end", "id": self._open}
            self._open = None
        match part:
            case StepStarted():
                self._has_text = False
                yield {"type": "start-step"}
            case StepEnded():
                yield {"type": "finish-step"}
            case ReasoningPiece(step=step, text=text):
                block = {"id": f"reasoning-{step}"}
                yield {"type": "reasoning-start", **block}
                yield {"type": "reasoning-delta", **block, "delta": text}
                yield {"type": "reasoning-end", **block}
            case CallBegan(id=id, name=name, args=args):
                call = {"toolCallId": id, "toolName": name}
                yield {"type": "tool-input-start", **call}
                yield {"type": "tool-input-available", **call, "input": args}
            case CallEnded():
                yield {**_result(part), "toolCallId": part.id}
            case RunCompleted() if not self._has_text:
                yield {"type": "data-output", "data": value_of(part)}
                yield from _finish(part)
            case _:
                yield from _finish(part)


def _result(part: CallEnded) -> Chunk:
    if part.is_refused:
        return {"type": "tool-output-denied"}
    if part.error is not None:
        return {"type": "tool-output-error", "errorText": part.error}
    return {"type": "tool-output-available", "output": part.value}


def _finish(end: RunEnded) -> Iterator[Chunk]:
    match end:
        case RunCompleted():
            yield {"type": "finish", "finishReason": "stop"}
        case RunFailed(message=message):
            yield {"type": "error", "errorText": message}
            yield {"type": "finish", "finishReason": "error"}
        case RunInterrupted(pending=(), reason=reason):
            yield {"type": "abort", "reason": reason}
        case RunInterrupted(pending=pending):
            for item in pending:
                if not item.external:
                    asked = {"approvalId": item.token, "toolCallId": id_of(item)}
                    yield {"type": "tool-approval-request", **asked}
            yield {"type": "finish", "finishReason": "tool-calls"}
