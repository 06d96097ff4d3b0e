"""Callers: the identity of who makes a request, and the `deps` of a run for them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wesichain.core import to_json

Authorize: TypeAlias = Callable[[Request], Any | Awaitable[Any]]
MakeDeps: TypeAlias = Callable[[Request], Any | Awaitable[Any]]

_log = logging.getLogger("wesichain.edge")
NOBODY = ""  # the owner of runs whose callers have no identity


class Callers:
    """Calls `authorize` for the identity of the caller, and `deps` for the deps of the caller's run."""

    def __init__(self, authorize: Authorize | None, deps: MakeDeps | None) -> None:
        self._authorize = authorize
        self._deps = deps

    async def owner(self, request: Request) -> str:
        """Return the identity of the caller as text, NOBODY where it has none; raises a 401.

        None and an empty text count as a refusal: a lookup that finds nobody returns them.
        """
        if self._authorize is None:
            return NOBODY
        found = self._authorize(request)
        if inspect.isawaitable(found):
            found = await found
        if found is True:
            return NOBODY
        if found is False or found is None or found == "":
            raise HTTPException(401, "the credentials are missing or wrong", {"www-authenticate": "Bearer"})
        return found if isinstance(found, str) else to_json(found)

    async def options(self, request: Request) -> dict[str, Any]:
        """Return the keyword `deps` for a run, where the app has any. Its errors are logged, not sent."""
        if self._deps is None:
            return {}
        try:
            made = self._deps(request)
            return {"deps": await made if inspect.isawaitable(made) else made}
        except HTTPException:
            raise
        except Exception:  # noqa: BLE001  # of the user's own function; its words may hold secrets
            _log.exception("deps(request) failed")
            raise HTTPException(500, "the service could not prepare this request") from None
