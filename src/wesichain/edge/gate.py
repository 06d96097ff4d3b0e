"""The gate: middleware that checks every request before the routes and adds headers to every answer."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection

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
    """Middleware that limits concurrent requests, in all and of one address, and checks where they come from.

    A browser sends `Origin` with requests from pages of another site. They are refused unless `cors` lists
    the origin; then the CORS headers allow its pages to read the answers. With `hosts`, a request for another
    host is refused, because DNS rebinding gives a foreign page the same origin as the app.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, cors: Collection[str], hosts: Collection[str]
    ) -> None:
        self._app = app
        self._most = limits.connections
        self._write_seconds = limits.write_seconds
        self._most_of_client = limits.client_connections
        self._open = 0
        self._open_of: Counter[str] = Counter()  # by address
        self._cors = frozenset(cors)
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        allowed = origins[0] if len(origins) == 1 and origins[0] in self._cors else None
        client = scope.get("client")
        address = client[0] if client else ""  # behind a proxy, the server reads it from X-Forwarded-For
        answer = self._answer(scope["method"], headers, origins, address, is_allowed=allowed is not None)

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
            if message.get("more_body", True):
                await send(message)
                return
            async with asyncio.timeout(self._write_seconds):  # a reader that has stopped
                await send(message)

        self._open += 1
        self._open_of[address] += 1
        try:
            await answer(scope, receive, send_guarded)
        finally:
            self._open -= 1
            self._open_of[address] -= 1
            if not self._open_of[address]:
                del self._open_of[address]

    def _answer(
        self, method: str, headers: Headers, origins: list[str], address: str, *, is_allowed: bool
    ) -> ASGIApp:
        """The app, or the answer in its place."""
        if address and self._open_of[address] >= self._most_of_client:
            return _refusal(429, "too many requests at once from this address; try again", _RETRY)
        if self._open >= self._most:
            return _refusal(503, "too many requests at once; try again", _RETRY)
        if self._hosts and _host_of(headers) not in self._hosts:
            return _refusal(400, "this host is not served here")
        if not is_allowed and not _is_same_origin(headers, origins):
            return _refusal(403, "requests from this origin are refused; add it to cors= to allow it")
        if is_allowed and method == "OPTIONS":
            return Response(status_code=204, headers=_PREFLIGHT)
        return self._app


_RETRY = {"retry-after": "1"}
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


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> ASGIApp:
    return JSONResponse({"error": why}, status, headers=headers)
