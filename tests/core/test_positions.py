"""Positions: how many arguments a function needs and takes by position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import pytest

from wesichain.core.internal import positions_of


class Rule:
    def __call__(self, args: object) -> object:
        return args

    def check(self, ctx: object, value: object) -> object:
        return ctx, value


def of_two(ctx: object, value: object, *, loud: bool = False) -> object:
    return ctx, value, loud


@pytest.mark.parametrize(
    ("function", "needed", "most"),
    [
        pytest.param(lambda: None, 0, 0, id="nothing"),
        pytest.param(lambda value: value, 1, 1, id="one"),
        pytest.param(of_two, 2, 2, id="two-and-one-by-name"),
        pytest.param(lambda value, limit=5: value < limit, 1, 2, id="a-default-is-not-needed"),
        pytest.param(lambda *values: values, 0, inf, id="any-number"),
        pytest.param(partial(of_two, None), 1, 1, id="a-partial"),
        pytest.param(Rule(), 1, 1, id="an-object"),
        pytest.param(Rule().check, 2, 2, id="a-method"),
        pytest.param(dict, 1, 1, id="a-class-of-C-that-does-not-tell"),
    ],
)
def test_what_a_function_needs_and_takes(function: Callable[..., Any], needed: int, most: float) -> None:
    assert positions_of(function) == (needed, most)
