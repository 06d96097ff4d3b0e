"""JSON that is almost what an adapter expects: its own field names, around anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st


def soup(fields: Sequence[str]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers(-2, 600) | st.text(max_size=5) | st.sampled_from(fields)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(fields), inner, max_size=6)
        ),
        max_leaves=40,
    )
