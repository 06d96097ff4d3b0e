"""`--embedder`: one of the user's own, by the name of its module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.learning.kit import strategy, words
from wesichain.learning import Playbook

OWN = """
from wesichain.learning import FunctionEmbedder

def encode(texts):
    return [[1.0, float(len(text))] for text in texts]

lengths = FunctionEmbedder("lengths", 2, function=encode)

def make():
    return lengths
"""


def test_a_playbook_is_searched_with_an_embedder_of_ones_own(
    wesichain: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Playbook.open(tmp_path / "a book", words()) as book:
        book.record(strategy("pay a bill", "a", id="1", helpful_count=3), domain="shop")
    (tmp_path / "own_embedder.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lengths", "make"):
        own = ["--path", str(tmp_path / "a book"), "--embedder", f"own_embedder:{name}"]
        assert "pay a bill" in wesichain("playbook", "search", "shop", "pay", *own).out
