"""Callers: who makes a request, and the world (`deps`) that a run for them sees."""

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
    """Asks `authorize` who the caller is, and `deps` for the caller's world."""

    def __init__(self, authorize: Authorize | None, deps: MakeDeps | None) -> None:
        self._authorize = authorize
        self._deps = deps

    async def owner(self, request: Request) -> str:
        """The identity of the caller as a text, NOBODY where there is none; an HTTPException for a stranger.

        None and an empty text are taken for a refusal: they are what a lookup gives that found nobody.
        """
        if self._authorize is None:
            return NOBODY
        found = self._authorize(request)
        if inspect.isawaitable(found):
            found = await found
        if found is True:
            return NOBODY
        if found is False or found is None or found == "":
            raise HTTPException(401, "who you are is missing or wrong", {"www-authenticate": "Bearer"})
        return found if isinstance(found, str) else to_json(found)

    async def options(self, request: Request) -> dict[str, Any]:
        """The keyword `deps` for a run, where the app has any. What goes wrong in it stays in the log."""
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
