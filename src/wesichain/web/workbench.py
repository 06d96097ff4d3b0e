"""The workbench: talk with an agent, fork, cancel, mark and export runs, look into a database."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wesichain.core import RunCompleted, RunFailed, to_json
from wesichain.errors import CodecError, WesichainError
from wesichain.trace import RunSummary, load, redact

from .desk import AgentDesk
from .export import export_html
from .forks import step_numbers
from .marks import Mark
from .queries import body_of, number_of
from .run_database import RunDatabase, StoredRun, plain_row
from .run_store import RunStore

_LONGEST_WHY = 4_000
_DIGEST = re.compile("[0-9a-f]{64}")


class Workbench:
    """The actions of a page beyond looking. Each is guarded like everything else under /api."""

    def __init__(self, runs: RunStore, desk: AgentDesk | None, database: RunDatabase | None) -> None:
        self._runs = runs
        self._desk = desk
        self._database = database

    def routes(self) -> list[Route]:
        return [
            Route("/api/info", self.info),
            Route("/api/runs/{id}/fork", self.fork, methods=["POST"]),
            Route("/api/runs/{id}/mark", self.mark, methods=["POST"]),
            Route("/api/runs/{id}/export", self.export),
            Route("/api/runs/{id}/parts/{digest}", self.part),
            Route("/api/database", self.list_database),
            Route("/api/database/{id}", self.show_stored),
            Route("/api/database/{id}/events", self.follow_database),
            Route("/api/database/{id}/cancel", self.cancel_stored, methods=["POST"]),
            Route("/api/database/{id}/resume", self.resume_stored, methods=["POST"]),
        ]

    async def info(self, _: Request) -> Response:
        """The parts that this server has: the agent, the database, the labels."""
        desk = self._desk
        return JSONResponse(
            {
                "agent": None if desk is None else redact(desk.about()),
                "database": self._database is not None,
                "labels": str(self._runs.marks.path),
            }
        )

    # --- the agent ---------------------------------------------------------------------------------

    async def fork(self, request: Request) -> Response:
        body = await body_of(request)
        step = body.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise HTTPException(HTTPStatus.BAD_REQUEST, 'send {"step": number}')
        desk = self._the_desk()
        run = await self._find(request)
        recording = await run_in_threadpool(self._load, run)
        steps = step_numbers(recording)
        if step not in steps:
            has = f"steps {steps[0]} to {steps[-1]}" if steps else "no steps"
            raise HTTPException(HTTPStatus.BAD_REQUEST, f"there is no step {step}: the run has {has}")
        return JSONResponse({"run_id": await desk.fork(recording, step)}, HTTPStatus.CREATED)

    def _the_desk(self) -> AgentDesk:
        if self._desk is None:
            raise HTTPException(
                HTTPStatus.CONFLICT, "there is no agent here: start with 'wesichain serve module:agent'"
            )
        return self._desk

    # --- runs --------------------------------------------------------------------------------------

    async def mark(self, request: Request) -> Response:
        body = await body_of(request)
        good, why = body.get("good"), body.get("why", "")
        if (
            not (good is None or isinstance(good, bool))
            or not isinstance(why, str)
            or len(why) > _LONGEST_WHY
        ):
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, 'send {"good": true, false or null, "why": "..."}; null takes it back'
            )
        run = await self._find(request)
        if good is None:
            await run_in_threadpool(self._runs.marks.remove, run.run_id)
        else:
            await run_in_threadpool(self._runs.marks.put, Mark(run.run_id, good, redact(why)))
        return JSONResponse({"run_id": run.run_id, "good": good})

    async def export(self, request: Request) -> Response:
        run = await self._find(request)
        recording = await run_in_threadpool(self._load, run)
        html = await run_in_threadpool(lambda: export_html(recording, prices=self._runs.prices))
        name = f"{run.path.name.removesuffix('.jsonl')}.html"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(html, media_type="text/html", headers=headers)

    async def part(self, request: Request) -> Response:
        """The bytes of a picture or a document, which are kept beside the recording, by their hash."""
        digest = str(request.path_params["digest"])
        run = await self._find(request)
        if not _DIGEST.fullmatch(digest):
            raise HTTPException(HTTPStatus.NOT_FOUND, "a part is named by its hash")
        try:
            data = await run_in_threadpool((run.path.with_suffix(".parts") / digest).read_bytes)
        except OSError:
            raise HTTPException(HTTPStatus.NOT_FOUND, "the bytes of this part are not here") from None
        headers = {"content-disposition": "attachment"}  # data for the page, never a page itself
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def _find(self, request: Request) -> RunSummary:
        run = await run_in_threadpool(self._runs.find, str(request.path_params["id"]))
        if run is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such run")
        return run

    def _load(self, run: RunSummary) -> Any:
        try:
            return load(run.path)
        except (OSError, CodecError) as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None

    # --- the database ------------------------------------------------------------------------------

    async def list_database(self, request: Request) -> Response:
        if self._database is None:
            return JSONResponse({"runs": None})
        status = request.query_params.get("status") or None
        limit = number_of(request, "limit", 200, least=1, most=1_000)
        try:
            rows = await self._database.list(status=status, limit=limit)
        except WesichainError as error:
            raise HTTPException(HTTPStatus.BAD_GATEWAY, redact(str(error))) from None
        return JSONResponse({"runs": [redact(plain_row(row)) for row in rows]})

    async def follow_database(self, request: Request) -> Response:
        after = number_of(request, "after", -1, least=-1)
        events = _event_lines(self._the_database(), str(request.path_params["id"]), after)
        return StreamingResponse(events, media_type="text/event-stream")

    async def show_stored(self, request: Request) -> Response:
        return _stored(await self._find_stored(request))

    async def cancel_stored(self, request: Request) -> Response:
        await body_of(request)
        row = await self._find_stored(request)
        if row.status in ("completed", "failed"):
            raise HTTPException(HTTPStatus.CONFLICT, f"the run has ended: it is {row.status}")
        await _changing(self._the_database().cancel(row.run_id))
        return _stored(await self._find_stored(request))

    async def resume_stored(self, request: Request) -> Response:
        await body_of(request)
        before = await self._find_stored(request)
        await _changing(self._the_database().resume(before.run_id))
        row = await self._find_stored(request)
        if (row.status, row.updated_at) == (before.status, before.updated_at):
            why = "decide on its calls first" if row.status == "interrupted" else "there is nothing to resume"
            raise HTTPException(HTTPStatus.CONFLICT, f"the run is {row.status}: {why}")
        return _stored(row)

    def _the_database(self) -> RunDatabase:
        if self._database is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no database here")
        return self._database

    async def _find_stored(self, request: Request) -> StoredRun:
        try:
            return await self._the_database().show(str(request.path_params["id"]))
        except WesichainError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, redact(str(error))) from None


def _stored(row: StoredRun) -> Response:
    return JSONResponse({"run": redact(plain_row(row))})


async def _changing(work: Awaitable[object]) -> None:
    """Change a durable run; what the database says against it is told."""
    try:
        await work
    except WesichainError as error:
        raise HTTPException(HTTPStatus.CONFLICT, redact(str(error))) from None


async def _event_lines(database: RunDatabase, run_id: str, after: int) -> AsyncIterator[bytes]:
    """The events of a durable run as server-sent events, until it has ended for good."""
    try:
        async for event in database.events(run_id):
            if event.seq > after:
                yield b"id: %d\ndata: %s\n\n" % (event.seq, to_json(redact(event)).encode())
            if not event.scope and isinstance(event, RunCompleted | RunFailed):
                break
    except WesichainError as error:
        yield b"event: problem\ndata: %s\n\n" % to_json({"error": redact(str(error))}).encode()
    yield b"event: end\ndata: {}\n\n"
