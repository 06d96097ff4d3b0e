"""Names that were others before: they work for one version, with a warning that has the new one."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize(
    ("door", "earlier", "now"),
    [
        ("wesichain.context", "Seen", "VisibleLog"),
        ("wesichain.core", "told_content", "content_as_text"),
        ("wesichain.testing", "Spoken", "ProviderReply"),
    ],
)
def test_an_earlier_name_works_and_warns(door: str, earlier: str, now: str) -> None:
    module = importlib.import_module(door)
    with pytest.warns(DeprecationWarning, match=f"{earlier} is called {now} now"):
        found = getattr(module, earlier)
    assert found is getattr(module, now)
    assert earlier not in module.__all__
