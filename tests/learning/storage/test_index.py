"""The index: what it finds is what a fresh one would, after any changes and from any cache."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.learning.kit import note, words
from wesichain.core.internal import dump_json
from wesichain.learning import FunctionEmbedder, PlaybookBullet
from wesichain.learning.embedders import Vectors
from wesichain.learning.storage.index import VectorIndex, pack, text_key, unpack


def _random(texts: list[str]) -> Vectors:
    """A vector of its own for every text, the same each time."""
    return np.stack(
        [np.random.default_rng(int(text)).standard_normal(32, dtype=np.float32) for text in texts]
    )


def numbered(count: int) -> list[PlaybookBullet]:
    letters = str.maketrans("0123456789", "abcdefghij")  # digits would be masked
    return [note(f"about {str(number).translate(letters)}", id=str(number)) for number in range(count)]


def spread() -> FunctionEmbedder:
    letters = str.maketrans("abcdefghij", "0123456789")
    return FunctionEmbedder(
        "spread", 32, function=lambda texts: _random([text.split()[1].translate(letters) for text in texts])
    )


names = st.lists(st.integers(0, 15), max_size=12)


@draws(40)
@given(st.lists(names, max_size=6))
def test_after_any_changes_a_search_is_that_of_a_fresh_index(states: list[list[int]]) -> None:
    embedder = spread()
    bullets = numbered(16)
    index, query = VectorIndex(embedder), embedder.embed(["about a"])[0]
    saved = b""
    for state in states:
        wanted = [bullets[number] for number in dict.fromkeys(state)]
        index.sync(wanted)
        fresh = VectorIndex(embedder)
        fresh.sync(wanted)
        restored = VectorIndex(embedder)
        restored.sync(wanted)
        restored.supply(unpack(embedder, saved))
        expected = dict(fresh.search(query, k=20))
        for other in (index, restored):
            found = dict(other.search(query, k=20))
            assert found.keys() == expected.keys()
            assert all(abs(found[name] - expected[name]) < 1e-5 for name in expected)
        saved = b"".join(bytes(part) for part in pack(embedder, *index.save(everything=True)))


def test_an_id_with_another_text_is_embedded_again() -> None:
    index = VectorIndex(words())
    index.put(note("apples", id="b"))
    vector = words().embed(["pears"])[0]
    assert index.search(vector, k=1)[0][1] < 0.5
    index.put(note("pears", id="b"))
    assert index.search(vector, k=9) == [("b", 1.0)]


def _file(**changed: object) -> bytes:
    """A cache file of three vectors, whose first line is changed."""
    index = VectorIndex(spread())
    index.sync(numbered(3))
    head, *parts = map(bytes, pack(spread(), *index.save(everything=True)))
    return dump_json({**json.loads(head), **changed}).encode() + b"\n" + b"".join(parts)


@pytest.mark.parametrize("count", [None, "3", 2.5, [], {}, 0, -1, 4, 10**9])
def test_a_cache_file_with_a_wrong_count_is_not_read(count: object) -> None:
    assert len(unpack(spread(), _file())) == 3
    assert unpack(spread(), _file(count=count)) == {}


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"5", b"{}"])
def test_a_cache_file_with_a_damaged_first_line_is_not_read(line: bytes) -> None:
    assert unpack(spread(), line + b"\n" + _file().partition(b"\n")[2]) == {}


def test_a_cache_file_with_a_damaged_byte_is_not_read() -> None:
    saved = _file()
    first = saved.index(b"\n") + 1
    for place in (first, len(saved) // 2, len(saved) - 1):
        damaged = saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :]
        assert unpack(spread(), damaged) == {}
    assert unpack(spread(), saved[:-1]) == {}


def test_all_vectors_are_saved_and_each_counts_as_new_once() -> None:
    index = VectorIndex(spread())
    index.sync(numbered(3))
    keys, vectors = index.save(everything=True)
    assert (keys, vectors.shape) == ([text_key(bullet.intent) for bullet in numbered(3)], (3, 32))
    assert (index.unsaved, index.save(everything=False)[0], len(index.save(everything=True)[0])) == (0, [], 3)
    index.put(note("about j", id="9"))
    assert index.save(everything=False)[0] == [text_key("about j")]
