"""The gate: middleware that checks every request before the routes and adds headers to every answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Limits

_HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class Gate:
    """Middleware that limits concurrent requests and refuses unknown hosts and other origins.

    A browser sends `Origin` with requests from pages of another site. They are refused unless `cors` lists
    the origin; then the CORS headers allow its pages to read the answers. With `hosts`, a request for another
    host is refused, because DNS rebinding gives a foreign page the same origin as the app.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, cors: Collection[str], hosts: Collection[str]
    ) -> None:
        self._app = app
        self._most = limits.connections
        self._open = 0
        self._cors = frozenset(cors)
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        allowed = origins[0] if len(origins) == 1 and origins[0] in self._cors else None
        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = self._app
        if self._open >= self._most:
            answer = _refusal(503, "too many requests at once; try again", {"retry-after": "1"})
        elif self._hosts and _host_of(headers) not in self._hosts:
            answer = _refusal(400, "this host is not served here")
        elif allowed is None and not _is_same_origin(headers, origins):
            answer = _refusal(403, "requests from this origin are refused; add it to cors= to allow it")
        elif allowed is not None and scope["method"] == "OPTIONS":
            answer = Response(status_code=204, headers=_PREFLIGHT)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    added.setdefault(name, value)
                if self._cors:
                    added.add_vary_header("origin")
                if allowed is not None:
                    added["access-control-allow-origin"] = allowed
                    added["access-control-allow-credentials"] = "true"
                    added["access-control-expose-headers"] = "x-run-id, x-vercel-ai-ui-message-stream"
            await send(message)

        self._open += 1
        try:
            await answer(scope, receive, send_guarded)
        finally:
            self._open -= 1


_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type, last-event-id, a2a-version, user-agent",
    "access-control-max-age": "600",
}


def _host_of(headers: Headers) -> str:
    """The requested host, without its port; empty unless there is exactly one."""
    hosts = headers.getlist("host")
    return re.sub(r":[0-9]*$", "", hosts[0].lower()) if len(hosts) == 1 else ""


def _is_same_origin(headers: Headers, origins: list[str]) -> bool:
    """Whether the request comes from a page of this host, or from no page."""
    host = headers.get("host", "").lower()
    return all(origin.lower() in (f"http://{host}", f"https://{host}") for origin in origins)


def _refusal(
    status: int, why: str, headers: dict[str, str] | None = None
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    return JSONResponse({"error": why}, status, headers=headers)
