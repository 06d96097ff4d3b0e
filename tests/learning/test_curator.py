"""The curator and its laws: idempotent, monotonic, isolated, journaled, reversible, bounded, orderless."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.learning.kit import ids, note, reflect, strategy, words
from wesichain.errors import ConfigError
from wesichain.learning import Playbook, PlaybookBullet, Reflection, SemanticCurator, ToolCallingStrategy
from wesichain.testing import FakeClock


def state(book: Playbook, domain: str = "shop") -> set[tuple[object, ...]]:
    """What is known, apart from times."""
    return {
        (item.id, item.content, item.section, item.helpful_count, item.harmful_count, item.stage, item.cases)
        for item in book.bullets(domain)
    }


@contextmanager
def fresh() -> Iterator[Playbook]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Playbook.open(Path(folder), words(), clock=FakeClock(), sync=False) as book,
    ):
        yield book


def only(book: Playbook, section: str = "Strategies") -> ToolCallingStrategy:
    (bullet,) = [item for item in book.bullets("shop") if item.section == section]
    assert isinstance(bullet, ToolCallingStrategy)
    return bullet


# --- what becomes one, and what stays apart ---------------------------------------------------------

SAME = [
    pytest.param("Pay the bill 12", "Pay the bill 99", ("a", "b"), id="another-number"),
    pytest.param("Pay the bill 'x'", 'Pay the bill "y z"', ("a", "b"), id="another-quoted-value"),
    pytest.param("Pay the big bill now", "Pay the big bill please", ("a", "b"), id="other-words-same-tools"),
    pytest.param("Pay the bill 1", "Pay the bill 2", ("a", "a", "b"), id="a-call-that-was-repeated"),
]
APART = [
    pytest.param("Pay the bill", "Pay the bill", ("b", "a"), id="the-same-words-and-other-tools"),
    pytest.param("Pay the bill", "Paint a fence", ("a", "b"), id="the-same-tools-and-another-intent"),
]


@pytest.mark.parametrize(("first", "second", "calls"), SAME)
def test_these_become_one(playbook: Playbook, first: str, second: str, calls: tuple[str, ...]) -> None:
    delta = SemanticCurator().merge(
        playbook, [reflect(first, "a", "b", task_id="1"), reflect(second, *calls, task_id="2")]
    )
    assert len(delta.added) == 1
    assert only(playbook).helpful_count == 2


@pytest.mark.parametrize(("first", "second", "calls"), APART)
def test_these_stay_apart(playbook: Playbook, first: str, second: str, calls: tuple[str, ...]) -> None:
    SemanticCurator().merge(playbook, reflect(first, "a", "b", task_id="1"))
    SemanticCurator().merge(playbook, reflect(second, *calls, task_id="2"))
    assert [item.helpful_count for item in playbook.bullets("shop")] == [1, 1]


OWNED = PlaybookBullet("", "Check the order first.", ruling="owner")


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(replace(OWNED, id="mine"), id="by-its-text"),
        pytest.param(PlaybookBullet(OWNED.id, "Look at the order.", ruling="owner"), id="by-its-id"),
    ],
)
def test_an_owner_s_sentence_that_is_known_is_not_added_again(
    playbook: Playbook, known: PlaybookBullet
) -> None:
    playbook.record(known, domain="shop")
    run = reflect("Pay the bill", "a", "b")
    for _ in range(2):  # with the run, and later
        SemanticCurator().merge(playbook, replace(run, proposals=(*run.proposals, OWNED)))
        owned = [(item.id, item.content) for item in playbook.bullets("shop") if item.is_owned]
        assert owned == [(known.id, known.content)]


# --- credit and blame -------------------------------------------------------------------------------


# --- laws -------------------------------------------------------------------------------------------

INTENTS = ["Pay the bill", "Send the parcel home", "Reset my old password"]
reflections = st.builds(
    lambda intent, calls, number, good: reflect(f"{intent} {number}", *calls, task_id=str(number), good=good),
    st.sampled_from(INTENTS),
    st.lists(st.sampled_from(["a", "b", "c", "!a", "!b"]), max_size=4),
    st.integers(0, 10_000),
    st.sampled_from([True, True, False, None]),
)
batches = st.lists(reflections, max_size=8)
law = draws(12)


@law
@given(batches)
def test_merging_again_changes_nothing(batch: list[Reflection]) -> None:
    with fresh() as book:
        SemanticCurator().merge(book, batch)
        known, length = state(book), len(book.journal("shop"))
        assert not SemanticCurator().merge(book, batch)
        assert (state(book), len(book.journal("shop"))) == (known, length)


@law
@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_a_batch_does_not_matter(batch: list[Reflection], chance: object) -> None:
    shuffled = list(batch)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    with fresh() as one, fresh() as other:
        SemanticCurator().merge(one, batch)
        SemanticCurator().merge(other, [*shuffled, *shuffled[:2]])
        assert state(one) == state(other)


@law
@given(batches)
def test_counters_only_grow_and_words_never_change(batch: list[Reflection]) -> None:
    with fresh() as book:
        known: dict[str, PlaybookBullet] = {}
        for reflection in batch:
            SemanticCurator().merge(book, reflection)
            now = {item.id: item for item in book.bullets("shop")}
            for name, before in known.items():
                assert now[name].helpful_count >= before.helpful_count
                assert now[name].harmful_count >= before.harmful_count
                assert now[name].content == before.content
            known = now


@law
@given(batches)
def test_every_change_has_a_delta_and_can_be_taken_back(batch: list[Reflection]) -> None:
    with fresh() as book:
        states = [state(book)]
        for reflection in batch:
            delta = SemanticCurator().merge(book, reflection)
            assert bool(delta) == (state(book) != states[-1])
            assert delta.deltas or not delta
            if delta.deltas:
                states.append(state(book))
        assert len(book.journal("shop")) == len(states) - 1
        for seq in reversed(range(len(states))):
            book.rollback("shop", to=seq)
            assert state(book) == states[seq]


@law
@given(batches, batches)
def test_a_domain_knows_nothing_of_another(ours: list[Reflection], theirs: list[Reflection]) -> None:
    with fresh() as book, fresh() as alone:
        SemanticCurator().merge(book, [*ours, *(replace(item, domain="bank") for item in theirs)])
        SemanticCurator().merge(alone, ours)
        assert state(book) == state(alone)


# --- consolidation ----------------------------------------------------------------------------------


def test_a_consolidation_joins_what_has_come_to_be_the_same(playbook: Playbook) -> None:
    playbook.record_all(
        [
            strategy("pay a bill", "a", helpful=2, harmful=1, id="old"),
            strategy("pay a bill now", "a", helpful=3, id="new", avg_iterations=4.0),
            strategy("pay a bill", "b", helpful=3, id="other-tools"),
            note("be kind to all", id="n1", helpful=1),
            note("be kind to all", id="n2", helpful=1),
        ],
        domain="shop",
    )
    before = playbook.bullets("shop")
    planned = SemanticCurator().consolidate(playbook, "shop", dry_run=True)
    assert (set(planned.updated), set(planned.removed)) == ({"old", "n1"}, {"new", "n2"})
    assert playbook.bullets("shop") == before
    done = SemanticCurator().consolidate(playbook, "shop")
    assert (done.updated, done.removed) == (planned.updated, planned.removed)
    assert (planned.deltas, done.deltas) == ((), tuple(playbook.journal("shop")[-1:]))
    assert ids(playbook.bullets("shop")) == ["old", "other-tools", "n1"]
    old = playbook.bullets("shop")[0]
    assert isinstance(old, ToolCallingStrategy)
    assert (old.helpful_count, old.harmful_count, old.avg_iterations) == (5, 1, 2.0)
    assert not SemanticCurator().consolidate(playbook, "shop")
    playbook.rollback("shop", to=1)
    assert playbook.bullets("shop") == before


@pytest.mark.parametrize("options", [{"threshold": 1.2}, {"sequence_threshold": 0.9}])
def test_a_curator_that_contradicts_itself_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        SemanticCurator(**options)
