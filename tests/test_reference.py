"""The reference page says what the code says."""

from __future__ import annotations

import importlib.util

from tests.conftest import ROOT


def test_the_reference_page_is_what_the_doors_offer() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == module.render(), "run: python docs/reference.py"
