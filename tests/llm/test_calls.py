"""The names of tools on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wesichain.llm.calls import ToolNames

NAMES = st.lists(
    st.text(alphabet="ab._-/ é", max_size=70) | st.sampled_from(["a_b", "a.b", "a_b_2"]), max_size=12
)


@given(names=NAMES)
def test_names_on_the_wire_are_legal_distinct_and_come_back(names: list[str]) -> None:
    mapping = ToolNames(names)
    sent = [mapping.to_wire(name) for name in dict.fromkeys(names)]
    assert len(set(sent)) == len(sent)
    for name, wire_name in zip(dict.fromkeys(names), sent, strict=True):
        assert 1 <= len(wire_name) <= 64
        assert set(wire_name) <= set("ab_-" + "0123456789")
        assert mapping.from_wire(wire_name) == name


def test_a_legal_name_is_never_changed_by_an_illegal_one() -> None:
    mapping = ToolNames(["a.b", "a/b", "a_b"])
    assert [mapping.to_wire(name) for name in ("a_b", "a.b", "a/b")] == ["a_b", "a_b_2", "a_b_3"]
    assert mapping.from_wire("never_offered") == "never_offered"
