"""Logs: shared, append-only, and never confused by a fork."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wesichain.core import Log


def test_a_longer_log_shares_the_items_of_the_shorter() -> None:
    first = Log([1, 2])
    second = first.append(3)
    assert list(first.view()) == [1, 2]
    assert list(second.view()) == [1, 2, 3]
    assert second._items is first._items


def test_two_continuations_of_one_moment_part() -> None:
    first = Log([1])
    left, right = first.append(2), first.append(3)
    assert (list(first.view()), list(left.view()), list(right.view())) == ([1], [1, 2], [1, 3])


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(), max_size=3)), max_size=12))
def test_every_log_stays_what_it_was_made(moves: list[tuple[int, list[int]]]) -> None:
    logs = [Log[int]()]
    wanted: list[list[int]] = [[]]
    for index, items in moves:
        parent = index % len(logs)
        logs.append(logs[parent].extend(items))
        wanted.append(wanted[parent] + items)
    assert [list(log.view()) for log in logs] == wanted
    assert all(log.since(1) == tuple(want[1:]) for log, want in zip(logs, wanted, strict=True))


def test_a_view_is_a_sequence() -> None:
    view = Log(["a", "b", "c"]).view()
    assert (len(view), view[0], view[-1], view[1:], "b" in view) == (3, "a", "c", ("b", "c"), True)
    assert view == ("a", "b", "c") == view
    assert view != ["a"]
    assert view != "abc"
    assert repr(view) == "('a', 'b', 'c')"
