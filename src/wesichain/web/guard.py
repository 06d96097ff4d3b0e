"""The guard: ASGI middleware that checks every request, and adds security headers to every response.

Pages of other sites can send requests to a server on the loopback address. Four checks refuse them: the Host
must be one of ours (DNS rebinding), the Origin must be our own, the API needs the token of the printed
address, and a write must be JSON, which no form can send.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wesichain.errors import ConfigError

MAX_BODY = 1_048_576

SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Checks the Host, the Origin, the token and the content type of each request."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Sequence[str]) -> None:
        if not token:
            raise ConfigError("the viewer needs a token: secrets.token_urlsafe(32) makes one")
        if not hosts:
            raise ConfigError("name the hosts under which the viewer is reached, such as '127.0.0.1:8321'")
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_guarded)
            return
        status, why = refusal
        answer = JSONResponse({"error": why}, status)
        if status == HTTPStatus.UNAUTHORIZED:
            answer.headers["www-authenticate"] = "Bearer"
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        headers = Headers(scope=scope)
        is_public = _is_public(scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return HTTPStatus.BAD_REQUEST, "this host is not served here"
        own = {f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"}
        if any(origin.lower() not in own for origin in headers.getlist("origin")):
            return HTTPStatus.FORBIDDEN, "requests of other origins are refused"
        if not is_public and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return HTTPStatus.FORBIDDEN, "requests of other sites are refused"
        if not is_public and not self._is_authorised(headers.getlist("authorization")):
            return HTTPStatus.UNAUTHORIZED, "the token is missing or wrong: open the address that was printed"
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            return _write_refusal(headers)
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header is accepted; an entry without a port accepts every port."""
        host = host.lower()
        name, colon, port = host.rpartition(":")
        is_split = (
            bool(colon) and port.isascii() and port.isdigit() and (":" not in name or name.endswith("]"))
        )
        return host in self._hosts or (is_split and name in self._hosts)

    def _is_authorised(self, given: Iterable[str]) -> bool:
        values = [value.encode("latin-1") for value in given]
        return len(values) == 1 and hmac.compare_digest(values[0], self._expected)


def _is_public(scope: Scope) -> bool:
    """Whether the path is a page, which contains no data. All other paths need the token."""
    path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
    return path == "/" or path.startswith("/static/")


def _write_refusal(headers: Headers) -> tuple[HTTPStatus, str] | None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with the content type application/json"
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        return HTTPStatus.LENGTH_REQUIRED, "say how long the body is"
    if int(length) > MAX_BODY:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY} bytes"
    return None
