"""Every public name is explained or used on a page that a person wrote."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, TOOLS, words_in_code

NOT_FOR_USERS = (
    DOCS / "reference",
    DOCS / "decisions",
)  # generated from the code, and written for its developers
GUIDES = [
    page
    for page in PAGES
    if page == ROOT / "README.md" or (DOCS in page.parents and not {*page.parents} & {*NOT_FOR_USERS})
]


@pytest.fixture(scope="module")
def doors() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        return importlib.import_module("doors")


def test_every_public_name_is_on_a_page(doors: Any) -> None:
    """Explain a new name where its readers look for it. If no user needs it, it belongs in an internal module."""
    explained = frozenset().union(*(words_in_code(page) for page in GUIDES if page.name != "reference.md"))
    missing = {door: names for door in doors.DOORS if (names := {*doors.offered(door)} - explained)}
    assert missing == {}
