"""Positions: how many arguments a function of the user's takes by position, and so which it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import inf
from typing import Any


def positions_of(function: Callable[..., Any], *, unknown: int = 1) -> tuple[int, float]:
    """How many arguments it needs by position, and how many it takes at the most.

    A parameter with a default is its own affair: nothing has to be passed for it. A function of C that does
    not tell needs and takes `unknown` of them.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return unknown, unknown
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in places)
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return needed, inf if is_open else len(places)
