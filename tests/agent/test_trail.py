"""Trails: shared, append-only, and never confused by a fork."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from wesichain.agent.internal import Trail
from wesichain.core import Message, Role, Thought

TEXTS = st.lists(st.text(max_size=2), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 9), TEXTS, TEXTS), max_size=12))
@example([(0, ["a"], []), (0, ["b"], [])])
@example([(0, [], ["a"]), (0, [], ["b"])])
def test_every_trail_stays_what_it_was_made(moves: list[tuple[int, list[str], list[str]]]) -> None:
    trails = [Trail.of([])]
    wanted: list[tuple[list[str], list[str]]] = [([], [])]
    for index, texts, thoughts in moves:
        parent = index % len(trails)
        trails.append(
            trails[parent].grown(
                [Message(Role.USER, text) for text in texts], [Thought(text) for text in thoughts]
            )
        )
        wanted.append((wanted[parent][0] + texts, wanted[parent][1] + thoughts))
    for trail, (texts, thoughts) in zip(trails, wanted, strict=True):
        assert [message.content for message in trail.messages] == texts
        assert list(trail.steps) == [Thought(text) for text in thoughts]
        assert [message.content for message in trail.messages_since(1)] == texts[1:]


def test_a_longer_trail_shares_the_lists_of_the_shorter() -> None:
    first = Trail.of([Message(Role.USER, "q")])
    second = first.grown([Message(Role.ASSISTANT, "a")], [Thought("t")])
    assert second.log is first.log
    assert (first.length, second.length) == (1, 2)
