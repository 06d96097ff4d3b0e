"""Embedders: unit rows of the promised size, from numpy or a function."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.learning.kit import SIZE
from wesichain.errors import ConfigError, PlaybookError
from wesichain.learning import Embedder, FunctionEmbedder, Playbook, PlaybookBullet, mask
from wesichain.learning.embedders import SharedEmbedder, unit_rows
from wesichain.learning.use_embedder import UseEmbedder


@pytest.fixture(scope="module")
def use() -> UseEmbedder:
    return UseEmbedder()


def test_the_default_gives_unit_rows_and_needs_no_network(use: UseEmbedder) -> None:
    rows = use.embed(["What does customer # owe?", "", "x" * 2000])
    assert rows.shape == (3, use.dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert isinstance(use, Embedder)


def test_the_default_tells_intents_apart(use: UseEmbedder) -> None:
    known = [
        "How much does customer 4411 owe for March?",
        "Where is order 99812 right now?",
        "Reset the password of 'anna'.",
    ]
    asked = [
        "What does client 17 have to pay?",
        "Track the parcel of order 1123.",
        'Unlock the account of user "bob".',
    ]
    likeness = use.embed([mask(text) for text in asked]) @ use.embed([mask(text) for text in known]).T
    assert likeness.argmax(axis=1).tolist() == [0, 1, 2]


def test_another_number_does_not_make_another_intent(use: UseEmbedder) -> None:
    pair = use.embed([mask("Where is order 99812 now?"), mask("Where is order AB-7 now?")])
    assert pair[0] @ pair[1] > 0.99


def test_a_function_is_an_embedder() -> None:
    embedder = FunctionEmbedder("ones", 4, function=lambda texts: [[3, 0, 0, 4]] * len(texts))
    assert np.allclose(embedder.embed(["a", "b"]), [[0.6, 0, 0, 0.8]] * 2)
    assert isinstance(embedder, Embedder)


WRONG = [
    pytest.param([[1.0, 2.0]], "promised rows of 4 numbers", id="too-short"),
    pytest.param([1.0, 2.0, 3.0, 4.0], "promised rows of 4 numbers", id="one-row-without-a-matrix"),
    pytest.param([[1.0, 2.0, 3.0, float("nan")]], "not finite", id="no-numbers"),
]


@pytest.mark.parametrize(("rows", "message"), WRONG)
def test_rows_that_break_the_promise_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(PlaybookError, match=message):
        unit_rows(rows, dimension=4, name="odd")


def test_a_row_is_expected_for_each_text() -> None:
    short = FunctionEmbedder("short", 2, function=lambda _: [[1.0, 1.0]])
    with pytest.raises(PlaybookError, match="gave 1 rows for 2 texts"):
        SharedEmbedder(short).embed(["a", "b"])
    assert SharedEmbedder(short).embed([]).shape == (0, 2)


def test_half_a_character_can_be_searched_for(tmp_path: Path) -> None:
    seen: list[str] = []

    def keep(texts: list[str]) -> Any:
        seen.extend(texts)
        return [[1.0, 0.0]] * len(texts)

    with Playbook.open(tmp_path, FunctionEmbedder("kept", 2, function=keep)) as book:
        assert book.retrieve("half \ud800 of it", domain="shop") == ()
    assert seen == ["half ? of it"]


def test_an_embedder_need_not_be_safe_to_share_between_threads(tmp_path: Path) -> None:
    at_work, overlaps = 0, 0

    def slow(texts: list[str]) -> Any:
        nonlocal at_work, overlaps
        at_work += 1
        overlaps += at_work > 1
        time.sleep(0.02)
        at_work -= 1
        return np.ones((len(texts), 2))

    with Playbook.open(tmp_path / "playbook", FunctionEmbedder("slow", 2, function=slow)) as book:
        domains = [f"d{number}" for number in range(6)]
        for domain in domains:
            book.record(PlaybookBullet(content="Be kind."), domain=domain)
        with ThreadPoolExecutor(6) as pool:
            found = [*pool.map(lambda domain: book.retrieve("be kind", domain=domain), domains)]
    assert [len(bullets) for bullets in found] == [1] * 6
    assert overlaps == 0


@pytest.mark.parametrize(
    ("error", "says"),
    [(ConfigError("no key"), "no key"), (ValueError("no"), "the embedder 'x' raised ValueError: no")],
)
def test_what_an_embedder_raises_is_said(error: Exception, says: str) -> None:
    def fail(_: list[str]) -> Any:
        raise error

    shared = SharedEmbedder(FunctionEmbedder("x", SIZE, function=fail))
    with pytest.raises(type(error) if isinstance(error, ConfigError) else PlaybookError, match=says):
        shared.embed(["a"])
    assert shared.embed([]).shape == (0, SIZE)
