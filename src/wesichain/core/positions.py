"""Positions: how many positional arguments a user's function takes, and so which ones it is passed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import inf
from typing import Any


def positions_of(function: Callable[..., Any], *, unknown: int = 1) -> tuple[int, float]:
    """The number of positional arguments that it requires, and the largest number that it takes.

    Parameters with defaults are not required. For a C function without a signature both are `unknown`.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return unknown, unknown
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in places)
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return needed, inf if is_open else len(places)
