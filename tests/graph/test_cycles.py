"""Cycles: detected if a node repeatedly sees the same state, and in no other case."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import pytest

from wesichain.errors import CycleDetectedError
from wesichain.graph import END, ExecutionOptions, GraphBuilder, Send
from wesichain.graph.nodes.cycles import fingerprint


class NoHash:
    """Compared by its contents, and therefore without a hash."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoHash) and other.n == self.n

    __hash__ = None  # type: ignore[assignment]  # that is the point


class ByAddress:
    """Mutable, with a hash of its address."""

    n = 0


def loop(node: Any, until: Any) -> Any:
    builder = GraphBuilder().add_node("a", node).set_entry("a")
    builder.add_conditional_edges("a", lambda s: END if until(s) else "a", ["a", END])
    return builder.build()


def changed_in_place(state: Any) -> Any:
    state["thing"].n += 1
    return {"thing": state["thing"]}


def popped(state: Any) -> None:
    state["thing"].get()


@pytest.mark.parametrize(
    ("thing", "node", "until"),
    [
        pytest.param(
            NoHash(0), lambda s: {"thing": NoHash(s["thing"].n + 1)}, lambda s: s["thing"].n >= 10, id="no-hash"
        ),
        pytest.param(ByAddress(), changed_in_place, lambda s: s["thing"].n >= 10, id="changed-in-place"),
        pytest.param(
            np.zeros(2), lambda s: {"thing": s["thing"] + 1}, lambda s: s["thing"][0] >= 10, id="an-array"
        ),
        pytest.param([NoHash(0)], lambda s: {"thing": [NoHash(s["thing"][0].n + 1)]},
                     lambda s: s["thing"][0].n >= 10, id="inside-a-list"),
    ],
)  # fmt: skip
def test_what_could_have_changed_is_no_cycle(thing: Any, node: Any, until: Any) -> None:
    loop(node, until).invoke_sync({"thing": thing})


def test_a_queue_that_empties_unseen_is_no_cycle() -> None:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(10):
        waiting.put(number)
    loop(popped, lambda s: s["thing"].empty()).invoke_sync({"thing": waiting})


def test_a_payload_that_cannot_be_compared_is_no_cycle() -> None:
    builder = GraphBuilder().add_node("a", lambda _: None)
    seen = [0]

    def again(_: Any) -> Any:
        seen[0] += 1
        return END if seen[0] > 9 else Send("a", NoHash(1))

    builder.add_conditional_edges("__start__", again, ["a", END])
    builder.add_conditional_edges("a", again, ["a", END])
    builder.build().invoke_sync({}, ExecutionOptions(max_steps=50))


def test_once_what_cannot_be_compared_is_gone_cycles_are_found_again() -> None:
    graph = loop(lambda _: {"thing": None}, lambda _: False)
    with pytest.raises(CycleDetectedError):
        graph.invoke_sync({"thing": NoHash(1)})


def test_numbers_texts_and_truths_differ() -> None:
    marks = [fingerprint(value) for value in (1, "1", True, "True", 1.0, -1, -2, None, "None")]
    assert len(set(marks)) == len(marks)
    with pytest.raises(TypeError):
        fingerprint({"a": [NoHash(1)]})
