"""The workbench: the routes to follow, fork, cancel, resume, mark and export runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wesichain.core import RunCompleted, RunFailed, to_json
from wesichain.errors import ConfigError, WesichainError
from wesichain.trace import RunSummary as RecordedRun
from wesichain.trace import redact

from .all_runs import AllRuns, AnyRun
from .desk import AgentDesk
from .export import export_html
from .forks import check_step
from .marks import Mark
from .queries import body_of, number_of, run_of
from .run_store import follow

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns

_LONGEST_WHY = 4_000
_DIGEST = re.compile("[0-9a-f]{64}")


class Workbench:
    """The actions of the pages on runs."""

    def __init__(self, runs: AllRuns, desk: AgentDesk | None) -> None:
        self._runs = runs
        self._desk = desk
        self._database = runs.database
        self._marks = runs.store.marks

    def routes(self) -> list[Route]:
        return [
            Route("/api/info", self.info),
            Route("/api/runs/{id}/events", self.follow),
            Route("/api/runs/{id}/cancel", self.cancel, methods=["POST"]),
            Route("/api/runs/{id}/resume", self.resume, methods=["POST"]),
            Route("/api/runs/{id}/fork", self.fork, methods=["POST"]),
            Route("/api/runs/{id}/mark", self.mark, methods=["POST"]),
            Route("/api/runs/{id}/export", self.export),
            Route("/api/runs/{id}/parts/{digest}", self.part),
        ]

    async def info(self, _: Request) -> Response:
        """The agent, and whether there is a database; the file of labels."""
        desk = self._desk
        return JSONResponse(
            {
                "agent": None if desk is None else redact(desk.about()),
                "database": self._database is not None,
                "labels": str(self._marks.path),
            }
        )

    # --- the agent ---------------------------------------------------------------------------------

    async def fork(self, request: Request) -> Response:
        body = await body_of(request)
        step = body.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise HTTPException(HTTPStatus.BAD_REQUEST, 'send {"step": number}')
        if self._desk is None:
            raise HTTPException(
                HTTPStatus.CONFLICT, "there is no agent here: 'wesichain serve --help' says how to name one"
            )
        recording = await self._runs.recording(await self._find(request))
        try:
            check_step(recording, step)
        except ConfigError as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
        return JSONResponse({"run_id": await self._desk.fork(recording, step)}, HTTPStatus.CREATED)

    async def cancel(self, request: Request) -> Response:
        """Cancel a durable run, on any machine."""
        await body_of(request)
        run = await self._find(request)
        if isinstance(run, RecordedRun):
            raise HTTPException(
                HTTPStatus.CONFLICT,
                "this run is a recording; a run of this server's agent is cancelled under /api/agent/runs",
            )
        if run.status in ("completed", "failed"):
            raise HTTPException(HTTPStatus.CONFLICT, f"the run has ended: it is {run.status}")
        await _change(self._durable_runs().cancel(run.run_id))
        return JSONResponse({"run": self._runs.plain(await self._find(request))})

    async def resume(self, request: Request) -> Response:
        """Queue a cancelled or failed durable run again."""
        await body_of(request)
        before = await self._find(request)
        if isinstance(before, RecordedRun):
            raise HTTPException(HTTPStatus.CONFLICT, "this run is a recording: fork it at a step")
        await _change(self._durable_runs().resume(before.run_id))
        run = await self._durable_runs().show(before.run_id)
        if (run.status, run.updated_at) == (before.status, before.updated_at):
            why = "decide on its calls first" if run.status == "interrupted" else "there is nothing to resume"
            raise HTTPException(HTTPStatus.CONFLICT, f"the run is {run.status}: {why}")
        return JSONResponse({"run": self._runs.plain(run)})

    async def follow(self, request: Request) -> Response:
        """The events of a run as server-sent events."""
        run = await self._find(request)
        after = number_of(request, "after", -1, least=-1)
        if isinstance(run, RecordedRun):
            events = follow(run.path, after=after)
        else:
            events = _event_lines(self._durable_runs(), run.run_id, after)
        return StreamingResponse(events, media_type="text/event-stream")

    def _durable_runs(self) -> DurableRuns:
        assert self._database is not None  # a durable run was found in it
        return self._database

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
            await run_in_threadpool(self._marks.remove, run.run_id)
        else:
            await run_in_threadpool(self._marks.put, Mark(run.run_id, good, redact(why)))
        return JSONResponse({"run_id": run.run_id, "good": good})

    async def export(self, request: Request) -> Response:
        run = await self._find(request)
        recording = await self._runs.recording(run)
        prices = self._runs.store.prices_of(recording.model)
        html = await run_in_threadpool(lambda: export_html(recording, prices=prices))
        name = run.path.name.removesuffix(".jsonl") if isinstance(run, RecordedRun) else quote(run.run_id)
        headers = {"content-disposition": f'attachment; filename="{name}.html"'}
        return Response(html, media_type="text/html", headers=headers)

    async def part(self, request: Request) -> Response:
        """The bytes of an image or document of a recording, by their hash."""
        digest = str(request.path_params["digest"])
        run = await self._find(request)
        if not _DIGEST.fullmatch(digest) or not isinstance(run, RecordedRun):
            raise HTTPException(HTTPStatus.NOT_FOUND, "a part of a recording is named by its hash")
        try:
            data = await run_in_threadpool((run.path.with_suffix(".parts") / digest).read_bytes)
        except OSError:
            raise HTTPException(HTTPStatus.NOT_FOUND, "the bytes of this part are not here") from None
        headers = {"content-disposition": "attachment"}  # never rendered as a page
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def _find(self, request: Request) -> AnyRun:
        return await run_of(self._runs, str(request.path_params["id"]))


async def _change(work: Awaitable[object]) -> None:
    """Change a durable run; 409 with the error of the database."""
    try:
        await work
    except WesichainError as error:
        raise HTTPException(HTTPStatus.CONFLICT, redact(str(error))) from None


async def _event_lines(database: DurableRuns, run_id: str, after: int) -> AsyncIterator[bytes]:
    """The events of a durable run as server-sent events, until it has completed or failed."""
    try:
        async for event in database.events(run_id):
            if event.seq > after:
                yield b"id: %d\ndata: %s\n\n" % (event.seq, to_json(redact(event)).encode())
            if not event.scope and isinstance(event, RunCompleted | RunFailed):
                break
    except WesichainError as error:
        yield b"event: problem\ndata: %s\n\n" % to_json({"error": redact(str(error))}).encode()
    yield b"event: end\ndata: {}\n\n"
