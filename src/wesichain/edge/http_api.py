"""The plain API: runs, their events, decisions on their calls, and cancelling, as JSON over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wesichain.agent import Completed, Failed
from wesichain.core import JsonValue
from wesichain.core.internal import PendingCall, to_plain

from .bodies import (
    checked_conversation,
    checked_run_id,
    decisions_of,
    last_event_id,
    read_object,
    settings_of,
    task_of,
    text_of,
)
from .event_log import EventsExpiredError
from .event_stream import event_frames, while_connected
from .openapi import ORDER_FIELDS
from .runs import Order, Run, RunEnd, new_run_id, status_of
from .service import Service


class HttpApi:
    """The handlers of `/runs` and the routes below it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, request: Request) -> Response:
        """`POST /runs`: the answer, or the waiting calls."""
        return await self._answer(request, await self._start(request, is_streamed=False))

    async def stream(self, request: Request) -> Response:
        """`POST /runs/stream`: the run's events as they arrive, after `Last-Event-ID` if it is given."""
        after = last_event_id(request)
        return self._events(await self._start(request, is_streamed=True), after)

    async def events(self, request: Request) -> Response:
        """`GET /runs/{id}/events`: the run's events, after `Last-Event-ID` if it is given."""
        owner = await self._service.owner(request)
        after = last_event_id(request)
        return self._events(await self._find(request, owner), after)

    async def decide(self, request: Request) -> Response:
        """`POST /runs/{id}/decisions`: resume the run; the response is that of `POST /runs`.

        With `Accept: text/event-stream`, the response is the events after `Last-Event-ID`.
        """
        owner, body = await self._service.receive(request)
        after = last_event_id(request)
        run = await self._find(request, owner)
        is_streamed = "text/event-stream" in request.headers.get("accept", "")
        options = await self._service.options(request)
        await run.decide(decisions_of(body), options, is_streamed=is_streamed)
        if is_streamed:
            return self._events(run, after)
        return await self._answer(request, run)

    async def cancel(self, request: Request) -> Response:
        """`POST /runs/{id}/cancel`: cancel the run."""
        owner = await self._service.owner(request)
        if request.headers.get("content-type") or request.headers.get("content-length", "0") != "0":
            await read_object(request, self._service.limits)  # only JSON is accepted; it is not used
        run = await self._find(request, owner)
        await run.cancel()
        return JSONResponse({"run_id": run.run_id, "cancelled": True})

    async def _start(self, request: Request, *, is_streamed: bool) -> Run:
        owner, body = await self._service.receive(request)
        unknown = body.keys() - ORDER_FIELDS.keys()
        if unknown:
            raise HTTPException(
                400, f"unknown field {min(unknown)[:64]!r}; known: {', '.join(sorted(ORDER_FIELDS))}"
            )
        registry = self._service.runs.keeper(text_of(body, "agent"))
        settings = settings_of(body.get("settings"))
        stay = body.get("stay", False)
        if not isinstance(stay, bool):
            raise HTTPException(400, "'stay' must be true or false")
        conversation = checked_conversation(text_of(body, "conversation"))
        order = Order(
            run_id=checked_run_id(text_of(body, "run_id") or new_run_id(owner, conversation)),
            owner=owner,
            task=task_of(body.get("task")),
            conversation=conversation,
            stay=stay,
            is_streamed=is_streamed,
            options={
                **await self._service.options(request),
                **({} if settings is None else {"settings": settings}),
            },
        )
        return await registry.start(order)

    async def _find(self, request: Request, owner: str) -> Run:
        return await self._service.runs.get(owner, checked_run_id(str(request.path_params["id"])))

    def _events(self, run: Run, after: int) -> Response:
        try:
            batches = run.follow(after)
        except EventsExpiredError as error:
            raise HTTPException(410, str(error)) from None
        return self._service.stream(run, event_frames(run, batches))

    async def _answer(self, request: Request, run: Run) -> Response:
        ending = await while_connected(run, run.ending(), request.receive)
        if ending.cancelled():  # the client has disconnected
            return JSONResponse({"run_id": run.run_id, "state": "running"}, 202)
        status, body = answer_of(run, ending.result())
        return JSONResponse(body, status)


def answer_of(run: Run, ending: RunEnd) -> tuple[int, Mapping[str, JsonValue]]:
    """Return the HTTP status and the JSON body of a run that has ended or waits."""
    outcome = ending.outcome
    about: dict[str, Any] = {"run_id": run.run_id, "cost": ending.cost, "usage": to_plain(outcome.usage)}
    if run.conversation is not None:
        about["conversation"] = run.conversation
    match outcome:
        case Completed():
            return 200, {**about, "output": ending.output, "stopped_by": outcome.stopped_by}
        case Failed(error=error):
            kind = type(error).__name__
            return status_of(error), {**about, "error": ending.failure, "kind": kind}
        case _ if ending.pending:
            waiting: list[JsonValue] = [pending_of(item) for item in ending.pending]
            return 202, {**about, "reason": outcome.reason, "pending": waiting}
        case _:
            return 409, {**about, "error": f"the run was cancelled: {outcome.reason}", "kind": "cancelled"}


def pending_of(item: PendingCall) -> dict[str, JsonValue]:
    """Return a call that waits for a decision as JSON for clients."""
    plain: Any = to_plain(item)
    plain.pop("parameters", None)  # the agent checks the arguments
    return {"external": item.external, "scope": [*item.scope], **plain}
