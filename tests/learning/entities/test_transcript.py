"""Values of a run as text."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.learning.entities.transcript import readable_text


@pytest.mark.parametrize(("value", "text"), [("x", "x"), ({"a": [1]}, '{"a":[1]}'), ({1, 2}, "{1, 2}")])
def test_a_value_as_text(value: Any, text: str) -> None:
    assert readable_text(value) == text
