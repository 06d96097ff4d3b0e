"""Views: sequences over the beginning of a list that grows."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core.internal import LogView


def test_a_view_is_a_sequence() -> None:
    view = LogView(["a", "b", "c", "later"], 3)
    assert (len(view), view[0], view[-1], view[1:], "b" in view) == (3, "a", "c", ("b", "c"), True)
    assert view == ("a", "b", "c") == view
    assert view != ["a"]
    assert view != "abc"
    assert repr(view) == "('a', 'b', 'c')"
    assert view + view == ("a", "b", "c", "a", "b", "c")
    assert operator.add(["z"], view) == ("z", "a", "b", "c")
    with pytest.raises(IndexError):
        view[3]


@given(st.lists(st.integers()), st.lists(st.integers()), st.slices(5))
def test_it_does_not_see_what_comes_later(items: list[int], later: list[int], part: slice) -> None:
    view = LogView(list(items), len(items))
    view._items.extend(later)
    assert list(view) == items == list(reversed(list(reversed(view))))
    assert view[part] == tuple(items[part])
