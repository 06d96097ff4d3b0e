"""The reference pages say what the code says."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
TOOLS = ROOT / "tools"


@pytest.fixture(scope="module")
def reference() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("reference")


@pytest.fixture(scope="module")
def pages(reference: Any) -> dict[Path, str]:
    rendered: dict[Path, str] = reference.render()
    return rendered


def test_the_reference_pages_are_what_the_doors_offer(pages: dict[Path, str]) -> None:
    if sys.version_info[:2] != (3, 11):
        pytest.skip(
            "the pages are written with the oldest Python that is supported; others word some types otherwise"
        )
    stale = [
        path.name for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    assert not stale, f"{stale}: run python tools/reference.py"
    assert {*(DOCS / "reference").glob("*.md")} == {path for path in pages if path.parent != DOCS}


def test_every_public_name_has_words(reference: Any) -> None:
    """A class or a function without a docstring stands in the reference as a bare name."""
    bare = [
        f"{door}.{name}"
        for door in reference.DOORS
        for name in reference.offered(door)
        if reference.is_documented(value := getattr(importlib.import_module(door), name))
        and not reference.doc_of(value)
    ]
    assert bare == []


def test_help_is_there_for_every_public_class(reference: Any) -> None:
    """msgspec resolves the annotations of a struct; a name that is imported for type checkers alone is not there."""
    offered = ((door, name) for door in reference.DOORS for name in reference.offered(door))
    for door, name in offered:
        value = getattr(importlib.import_module(door), name)
        if isinstance(value, type):
            assert pydoc.render_doc(value)
        if isinstance(value, msgspec.StructMeta):
            inspect.signature(value)  # raises if an annotation cannot be resolved
