"""An option is written once: its keyword for type checkers is made of it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.conftest import ROOT


def test_the_keywords_are_the_options() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        writer: Any = importlib.import_module("keywords")
    assert writer.KEYWORDS.read_text(encoding="utf-8") == writer.render(), "run: python tools/keywords.py"
