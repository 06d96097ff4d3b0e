"""The service: the runs, callers and limits of an app, as all of its endpoints use them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import Value, makes_contexts

from .bodies import read_object
from .event_stream import EventStream
from .limits import Limits
from .runs import DepsMaker, Run, RunDirectory


class Identity(Value):
    """The sender of a request, as `authorize` may return it: runs and conversations belong to `id`.

    `request.state.identity` has it for `deps`, with the `roles` that tools may check.
    """

    id: str
    roles: tuple[str, ...] = ()


Authorize: TypeAlias = Callable[[Request], Any | Awaitable[Any]]
MakeDeps: TypeAlias = Callable[[Request], Any | Awaitable[Any]]

_log = logging.getLogger("wesichain.edge")
_NOBODY = ""  # the owner of runs whose callers have no identity


class Service(Value):
    """The parts that all endpoints of an app share.

    `authorize` returns the identity of a caller, and `deps` the deps of the caller's run.
    """

    runs: RunDirectory
    limits: Limits
    authorize: Authorize | None
    deps: MakeDeps | None

    async def receive(
        self, request: Request, *, is_chat: bool = False
    ) -> tuple[str, Mapping[str, JsonValue]]:
        """Return the owner of a request and the JSON object in its body; raises HTTPException for others."""
        owner = await self.owner(request)
        return owner, await read_object(request, self.limits, is_chat=is_chat)

    async def owner(self, request: Request) -> str:
        """Return the identity of the caller as text, `_NOBODY` without one; raises a 401.

        None and an empty text are refused, because a lookup without a result returns them.
        """
        if self.authorize is None:
            return _NOBODY
        found = self.authorize(request)
        if inspect.isawaitable(found):
            found = await found
        if found is True:
            return _NOBODY
        identity = found if isinstance(found, Identity) else None
        found = found if identity is None else identity.id
        if found is False or found is None or found == "":
            raise HTTPException(401, "the credentials are missing or wrong", {"www-authenticate": "Bearer"})
        owner = found if isinstance(found, str) else to_json(found)
        request.state.identity = identity or Identity(owner)
        return owner

    async def options(self, request: Request) -> dict[str, Any]:
        """Return the keyword `deps` for a run, if the app has any. Errors of it are logged, not sent."""
        if self.deps is None:
            return {}
        if makes_contexts(self.deps):
            return {"deps": DepsMaker(self.deps, request)}
        try:
            made = self.deps(request)
            return {"deps": await made if inspect.isawaitable(made) else made}
        except HTTPException:
            raise
        except Exception:  # noqa: BLE001  # of a function of the user; its text may contain secrets
            _log.exception("deps(request) failed")
            raise HTTPException(500, "the service could not prepare this request") from None

    def stream(
        self, run: Run, frames: AsyncIterator[bytes], headers: Mapping[str, str] | None = None
    ) -> Response:
        """A response with the frames of a run, and the id of the run in a header."""
        return EventStream(
            run,
            frames,
            write_seconds=self.limits.write_seconds,
            headers={"x-run-id": run.run_id, **(headers or {})},
        )
