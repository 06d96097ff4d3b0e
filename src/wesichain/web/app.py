"""The application: the pages and the API of the viewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wesichain.agent import Agent, Approve, ApproveWith, Decision, Refuse
from wesichain.core.internal import PendingCall, Prices, Provide, Value, to_plain
from wesichain.errors import (
    ApprovalExpiredError,
    CodecError,
    ConfigError,
    DomainError,
    DurableError,
    MissingDependencyError,
    PlaybookError,
    WesichainError,
)
from wesichain.trace import diff, redact

try:
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount, Route
except ModuleNotFoundError as error:
    raise MissingDependencyError("the web viewer", package="starlette", extra="web") from error

from .all_runs import AllRuns
from .approvals import ApprovalFolder
from .desk import AgentDesk
from .export import static_files
from .guard import SECURITY_HEADERS, Guard
from .playbooks import PlaybookShelf
from .queries import body_of, filter_of, number_of, run_of
from .run_store import PAGE_EVENTS, RunStore
from .workbench import Workbench

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns, PendingDecision
    from wesichain.learning import Playbook

T = TypeVar("T")
_MAX_DIFFERENCES = 500


def create_app(
    runs: Path,
    *,
    playbook: Path | Playbook | None = None,
    approvals: Path | ApprovalFolder | None = None,
    agent: Agent[Any] | None = None,
    deps: Callable[..., Any] | None = None,
    resume: Callable[[str], bool] | None = None,
    database: DurableRuns | None = None,
    token: str,
    hosts: Sequence[str],
    prices: Prices | None = None,
) -> Starlette:
    """The viewer of a folder of recordings and a database of durable runs, as an ASGI application.

    `token` is the bearer token of the API. `hosts` are the accepted values of the Host header; one without a
    port accepts every port. `prices` are per million tokens, by model; the default is the published price.
    `agent` is for the chat in the page, and `deps(request)` makes the deps of its runs. `resume(run_id)` is
    called when all calls of another program's run were decided here; it returns whether the run continues.
    """
    runs = Path(runs)
    store = RunStore(runs, prices=prices)
    found = AllRuns(store, database)
    if agent is not None and approvals is None:
        approvals = runs.parent / "approvals"
    folder = ApprovalFolder(approvals) if isinstance(approvals, str | Path) else approvals
    desk = None
    if agent is not None and folder is not None:
        desk = AgentDesk(agent, runs=runs, approvals=folder, deps=deps)
    shelf = PlaybookShelf(playbook) if playbook is not None else None
    viewer = _Viewer(found, shelf, folder, desk, resume)
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/static/{name}", _page),
            *Workbench(found, desk).routes(),
            *([] if desk is None else [Mount("/api/agent", desk.app)]),
            Route("/api/runs", viewer.list_runs),
            Route("/api/runs/{id}", viewer.show_run),
            Route("/api/diff", viewer.compare),
            Route("/api/stats", viewer.stats),
            Route("/api/playbook", viewer.domains),
            Route("/api/playbook/{domain}", viewer.domain),
            Route("/api/playbook/{domain}/rollback", viewer.rollback, methods=["POST"]),
            Route("/api/approvals", viewer.waiting),
            Route("/api/approvals/{token}", viewer.decide, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token, hosts=hosts)],
        exception_handlers={HTTPException: _refused, WesichainError: _failed, Exception: _broken},
    )
    app.state.read_ahead = store.read_all_digests  # called by the server while it is idle
    return app


class _Viewer(Value):
    """The handlers of the API. Files are read in threads."""

    runs: AllRuns
    playbook: PlaybookShelf | None
    approvals: ApprovalFolder | None
    desk: AgentDesk | None
    resume: Callable[[str], bool] | None

    # --- runs ---

    async def list_runs(self, request: Request) -> Response:
        found = await self.runs.rows(
            filter_of(request),
            limit=number_of(request, "limit", 50, least=1, most=1_000),
            after=request.query_params.get("after") or request.query_params.get("before") or None,
        )
        return JSONResponse(found, background=BackgroundTask(self.runs.store.read_ahead))

    async def show_run(self, request: Request) -> Response:
        run = await run_of(self.runs, request.path_params["id"])
        cursor = number_of(request, "cursor", 0)
        limit = number_of(request, "limit", PAGE_EVENTS, least=1, most=10_000)
        body = await self.runs.page(run, cursor=cursor, limit=limit)
        return Response(body, media_type="application/json")

    async def compare(self, request: Request) -> Response:
        runs = [await run_of(self.runs, request.query_params.get(side, "")) for side in ("a", "b")]
        left, right = [await self.runs.recording(run) for run in runs]
        found = await run_in_threadpool(diff, left, right)
        shown = [
            {
                "step_id": one.step_id,
                "left": one.left and to_plain(one.left),
                "right": one.right and to_plain(one.right),
                "changes": [to_plain(change) for change in one.changes],
            }
            for one in found[:_MAX_DIFFERENCES]
        ]
        ours, theirs = map(self.runs.plain, runs)
        return JSONResponse({"a": ours, "b": theirs, "differences": shown, "total": len(found)})

    async def stats(self, _: Request) -> Response:
        found = await self.runs.statistics()
        rest = BackgroundTask(self.runs.store.read_all_digests) if found["counted"] < found["runs"] else None
        return JSONResponse(found, background=rest)

    # --- the playbook ---

    async def domains(self, _: Request) -> Response:
        shelf = self.playbook
        return JSONResponse({"domains": [] if shelf is None else await _reading(shelf.domains)})

    async def domain(self, request: Request) -> Response:
        _, shown = await self._domain(request)
        return JSONResponse(shown)

    async def rollback(self, request: Request) -> Response:
        body = await body_of(request)
        to = body.get("to")
        if not isinstance(to, str | int) or isinstance(to, bool):
            raise HTTPException(HTTPStatus.BAD_REQUEST, 'send {"to": ...} with the number or hash of a delta')
        shelf, shown = await self._domain(request)
        delta = await _reading(lambda: shelf.rollback(shown["domain"], to=to))
        return JSONResponse({"delta": delta})

    async def _domain(self, request: Request) -> tuple[PlaybookShelf, dict[str, Any]]:
        shelf = self.playbook
        name = str(request.path_params["domain"])
        shown = None if shelf is None else await _reading(lambda: shelf.show(name))
        if shelf is None or shown is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "the playbook has no such domain")
        return shelf, shown

    # --- approvals ---

    async def waiting(self, _: Request) -> Response:
        folder = self.approvals
        found = () if folder is None else await run_in_threadpool(folder.pending)
        shown = [_waiting(call.pending, call.run_id, call.task) for call in found]
        if self.runs.database is not None:
            shown += [_waiting(item, item.run_id, item.task) for item in await self.runs.database.pending()]
        return JSONResponse({"approvals": shown})

    async def decide(self, request: Request) -> Response:
        token = str(request.path_params["token"])
        decision = _decision(await body_of(request))
        folder = self.approvals
        status = "unknown" if folder is None else await run_in_threadpool(folder.token_status, token)
        database = self.runs.database
        if status == "unknown" and database is not None and await _decide_stored(database, token, decision):
            return JSONResponse(
                {"token": token, "decision": decision.kind, "next": "Its worker continues it."}
            )
        if folder is None or status in _UNDECIDABLE:
            raise HTTPException(*_UNDECIDABLE[status])
        following = "The run goes on."
        try:
            if self.desk is None or not await self.desk.decide(token, decision):
                following = await run_in_threadpool(self._decide_elsewhere, folder, token, decision)
        except ConfigError as error:
            is_late = await run_in_threadpool(folder.token_status, token) != "waiting"
            raise HTTPException(_conflict_if(is_late), redact(str(error))) from None
        return JSONResponse({"token": token, "decision": decision.kind, "next": following})

    def _decide_elsewhere(self, folder: ApprovalFolder, token: str, decision: Decision) -> str:
        """Decide on a call of a run that this server does not run, and say how it goes on."""
        run_id = next(item.run_id for item in folder.pending() if item.pending.token == token)
        folder.decide(token, decision)
        if left := sum(item.run_id == run_id for item in folder.pending()):
            return f"{left} more of its calls wait."
        if self.resume is not None and self.resume(run_id):
            return "The run goes on."
        return "The program that began the run continues it."


async def _decide_stored(database: DurableRuns, token: str, decision: Decision) -> bool:
    """Decide on a call of a durable run; False if none waits for this token."""
    run = next((item.run_id for item in await database.pending() if item.token == token), None)
    if run is None:
        if any(token == decided for _, decided in await database.ask(lambda store: store.ledger.decided())):
            raise HTTPException(*_UNDECIDABLE["decided"])
        return False
    try:
        await database.approve(run, token, decision)
    except DurableError as error:
        does_not_fit = isinstance(error.__cause__, ConfigError)
        is_late = not does_not_fit or isinstance(error.__cause__, ApprovalExpiredError)
        raise HTTPException(_conflict_if(is_late), redact(str(error))) from None
    return True


def _conflict_if(is_late: bool) -> int:
    """The status of a decision that was refused: it came too late, or does not fit its call."""
    return HTTPStatus.CONFLICT if is_late else HTTPStatus.BAD_REQUEST


_UNDECIDABLE = {
    "unknown": (HTTPStatus.NOT_FOUND, "no call waits for this token"),
    "decided": (HTTPStatus.CONFLICT, "this call was decided already"),
    "expired": (HTTPStatus.CONFLICT, "this approval has expired; run the task again"),
}


def _waiting(pending: PendingDecision | PendingCall, run_id: str, task: str) -> dict[str, Any]:
    """A waiting call as JSON; `is_redacted` if its arguments are shown redacted."""
    call = pending.call
    asked = to_plain(pending.question)
    shown = redact(
        {"task": task, "tool": call.name, "args": to_plain(call.args), "question": asked, "why": pending.why}
    )
    return {
        "token": pending.token,
        "run_id": run_id,
        "call_id": call.id,
        "expires_at": pending.expires_at,
        "scope": [*pending.scope],
        "external": pending.external,
        "is_redacted": shown["args"] != to_plain(call.args),
        **shown,
    }


def _decision(body: Mapping[str, Any]) -> Decision:
    match body.get("decision"):
        case "approve" if "args" not in body:  # other arguments need `approve_with`
            return Approve()
        case "approve_with" if "args" in body:
            return ApproveWith(body["args"])
        case "refuse" if isinstance(body.get("reason", ""), str) and "args" not in body:
            return Refuse(body.get("reason", ""))
        case "provide" if "value" in body or isinstance(body.get("error"), str):
            return Provide(body.get("value"), body.get("error"))
        case _:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST,
                "a decision is approve, refuse (with a reason), approve_with (with args), "
                "or, for a call that is run elsewhere, provide (with a value or an error)",
            )


async def _reading(read: Callable[[], T]) -> T:
    """Read the playbook in a thread, and answer its errors with a status."""
    try:
        return await run_in_threadpool(read)
    except MissingDependencyError as error:
        raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, str(error)) from None
    except DomainError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
    except PlaybookError as error:
        raise HTTPException(HTTPStatus.CONFLICT, str(error)) from None


async def _page(request: Request) -> Response:
    found = static_files().get(request.path_params.get("name", "index.html"))
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such page")
    headers = {"etag": found.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    """The answer for a recording or a database that cannot be read."""
    status = HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(error, CodecError) else HTTPStatus.BAD_GATEWAY
    return JSONResponse({"error": redact(str(error))}, status)


async def _broken(_: Request, __: Exception) -> Response:
    """The answer for a bug, whose traceback is only in the log."""
    headers = {**SECURITY_HEADERS, "cache-control": "no-store"}
    return JSONResponse({"error": "something went wrong; the server's log says what"}, 500, headers=headers)
