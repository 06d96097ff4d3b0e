"""Bodies: reads and checks the bodies, ids and headers of requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from wesichain.core import JsonValue, ModelSettings
from wesichain.core.internal import Decision, from_plain, is_object, parse_json
from wesichain.errors import CodecError, WesichainError

from .limits import Limits
from .runs import error_text

RUN_ID = "[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}"
_CONVERSATION = re.compile(r"[^\x00-\x1f\x7f]{1,256}")


async def read_object(request: Request, limits: Limits, *, is_chat: bool = False) -> Mapping[str, JsonValue]:
    """Return the JSON object in a request's body; raises HTTPException (400, 408, 413, 415) otherwise."""
    most = limits.chat_body if is_chat else limits.body
    media, _, rest = request.headers.get("content-type", "").partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise HTTPException(415, "send JSON with the content type application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "send the body without a content encoding")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        raise HTTPException(400, "the content length is not a number")
    if int(length) > most:
        raise HTTPException(413, f"a body has at most {most} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise HTTPException(413, f"a body has at most {most} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive in {limits.body_seconds:g} seconds") from None
    except ClientDisconnect:
        raise HTTPException(400, "the connection closed before the end of the body") from None
    try:
        value = parse_json(bytes(body))
    except (CodecError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the body is not JSON: {error_text(error)}") from None
    if not is_object(value):
        raise HTTPException(400, "the body is not a JSON object")
    return value


def text_of(body: Mapping[str, JsonValue], name: str) -> str | None:
    """Return a field that must be a text; None if it is not given."""
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise HTTPException(400, f"{name!r} must be a text")


def task_of(value: JsonValue) -> str:
    """The task of a run."""
    if not isinstance(value, str) or not value.strip():
        raise HTTPException(400, 'send {"task": "..."}')
    return value


def checked_run_id(value: str) -> str:
    if not re.fullmatch(RUN_ID, value):
        raise HTTPException(400, "a run id has letters, digits and _ . : @ - (128 at most)")
    return value


def checked_conversation(value: str | None) -> str | None:
    if value is not None and not _CONVERSATION.fullmatch(value):
        raise HTTPException(400, "the id of a conversation has 1 to 256 characters, none of them controls")
    return value


def decisions_of(value: Mapping[str, JsonValue]) -> dict[str, Decision]:
    """Decisions by their tokens: `{token: {"kind": "approve", ...}}`."""
    found: dict[str, Decision] = {}
    for token, decision in value.items():
        try:
            found[token] = cast("Decision", from_plain(cast("Any", Decision), decision))
        except CodecError:
            raise HTTPException(
                400,
                "a decision is {token: {kind}}, where kind is approve, approve_with (args), refuse (reason) "
                "or provide (value or error)",
            ) from None
    if not found:
        raise HTTPException(400, "send a decision for each token")
    return found


def settings_of(value: JsonValue) -> ModelSettings | None:
    """Return the model settings of a run. `extra` is refused, because the provider receives it unchanged."""
    if value is None:
        return None
    if not is_object(value) or "extra" in value:
        raise HTTPException(400, "'settings' must be an object of model settings, without 'extra'")
    try:
        return ModelSettings(**cast("Any", value))
    except (TypeError, WesichainError) as error:
        raise HTTPException(400, f"the settings are not valid: {error_text(error)}") from None


def last_event_id(request: Request) -> int:
    """Return the number of the last event that the client has received; 0 if there is none."""
    given = request.headers.get("last-event-id", "").strip()
    if not given:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise HTTPException(400, "Last-Event-ID must be the number of an event")
    return int(given)
