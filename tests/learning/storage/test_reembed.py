"""Embedding a playbook anew from the command line: the error names the command, and the command does it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.learning.kit import strategy, words
from wesichain.cli.playbooks import app
from wesichain.errors import PlaybookError
from wesichain.learning import Embedder, FunctionEmbedder, Playbook
from wesichain.learning.storage.backend import mismatch

OWN = """
from wesichain.learning import FunctionEmbedder

def encode(texts):
    return [[1.0, float(len(text))] for text in texts]

lengths = FunctionEmbedder("lengths", 2, function=encode)

def make():
    return lengths
"""


def test_the_error_names_the_command_that_embeds_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "a book"
    with Playbook.open(book, words()) as first:
        first.record(strategy("pay a bill", "a", id="1", helpful_count=3), domain="shop")
    with pytest.raises(PlaybookError) as caught:
        Playbook.open(book)
    found = re.search(r"anew: wesichain playbook (.*) \(in code", str(caught.value))
    assert found is not None
    done = CliRunner().invoke(app, shlex.split(found[1]))
    assert (done.exit_code, done.output) == (0, "shop: 1 embedded\n")
    with Playbook.open(book) as again:
        assert [bullet.id for bullet in again.retrieve("pay a bill", domain="shop")] == ["1"]

    (tmp_path / "own_embedder.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("lengths", "make"):
        own = ["--path", str(book), "--embedder", f"own_embedder:{name}"]
        assert CliRunner().invoke(app, ["reembed", *own]).exit_code == 0
        assert "pay a bill" in CliRunner().invoke(app, ["search", "shop", "pay", *own]).output
    refused = CliRunner().invoke(app, ["search", "shop", "pay", "--path", str(book)])
    assert (refused.exit_code, "was embedded with 'lengths'" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("embedder", "command"),
    [
        pytest.param(
            FunctionEmbedder("usem3-multilingual", 512, function=list),
            "reembed --path 'my book' (in code",
            id="the default need not be named",
        ),
        pytest.param(
            FunctionEmbedder("openai:small", 8, function=list),
            "reembed --path 'my book' --embedder openai:small:8 (in code",
            id="an endpoint's is named with its dimension",
        ),
        pytest.param(
            FunctionEmbedder("mine", 8, function=list),
            "reembed --path 'my book' --embedder package.module:name (in code",
            id="where an own one is made only its author knows",
        ),
    ],
)
def test_the_command(embedder: Embedder, command: str) -> None:
    stored = {"embedder": "other", "dimension": 4}
    assert command in str(mismatch(("--path", "my book"), stored, embedder))


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("nowhere", id="no module"),
        pytest.param("no_such_module:name", id="a module that is not there"),
        pytest.param("json:nothing", id="a name that is not there"),
        pytest.param("builtins:dict", id="something that is no embedder"),
        pytest.param("openai::8", id="an endpoint without a model"),
    ],
)
def test_an_embedder_that_cannot_be_loaded_is_named(tmp_path: Path, target: str) -> None:
    done = CliRunner().invoke(app, ["list", "--path", str(tmp_path), "--embedder", target])
    assert (done.exit_code, target in done.output) == (2, True)


def test_a_playbook_can_be_looked_at_without_its_embedder(tmp_path: Path) -> None:
    with Playbook.open(tmp_path, words()) as book:
        book.record(strategy("pay a bill", "a", id="1", helpful=3), domain="shop")
    with Playbook.browse(tmp_path) as book:
        assert [bullet.id for bullet in book.bullets("shop")] == ["1"]
        assert book.quarantine("1").stage == "quarantined"
        assert book.rollback("shop", to=1) is not None
        with pytest.raises(PlaybookError, match="open it with its embedder, 'words'"):
            book.retrieve("pay a bill", domain="shop")
    with Playbook.open(tmp_path, words()) as book:
        assert [bullet.id for bullet in book.retrieve("pay a bill", domain="shop")] == ["1"]
    (tmp_path / "playbook.json").write_text("[]", encoding="utf-8")
    with pytest.raises(PlaybookError, match="not the description of a playbook"):
        Playbook.browse(tmp_path)
