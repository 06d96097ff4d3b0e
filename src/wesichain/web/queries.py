"""Queries: the parameters and bodies of requests, validated; an invalid one is a 400 with a message."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wesichain.core.internal import is_object, parse_json
from wesichain.errors import CodecError

from .all_runs import AllRuns, AnyRun
from .run_store import Filter

MARKS = ("good", "bad", "any", "none")


async def run_of(runs: AllRuns, id: str) -> AnyRun:
    """Find the run of a request; 404 if there is none."""
    run = await runs.find(id)
    if run is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such run")
    return run


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    try:
        body = parse_json(await request.body())
    except CodecError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
    if not is_object(body):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "send a JSON object")
    return body


def number_of(request: Request, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 17 and least <= int(text) <= most:
        return int(text)
    raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name} is a whole number from {least} to {most}")


def filter_of(request: Request) -> Filter:
    """The filter of a request for a list of runs."""
    query = request.query_params
    return Filter(
        query.get("search", "")[:200],
        _one_of(request, "status", Filter.STATUSES),
        query.get("tool", "")[:64],
        _one_of(request, "mark", MARKS),
        _amount(request, "least_cost"),
        _amount(request, "most_cost"),
        _amount(request, "since"),
        _amount(request, "until"),
        _amount(request, "least_seconds"),
    )


def _one_of(request: Request, name: str, values: tuple[str, ...]) -> str:
    value = request.query_params.get(name, "")
    if value and value not in values:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name} is one of {', '.join(values)}")
    return value


def _amount(request: Request, name: str) -> float | None:
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        amount = float(text[:32])
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount) or amount < 0:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name} is a number from 0 on")
    return amount
