"""LangGraph's own tests of time travel (`libs/langgraph/tests/test_time_travel.py`, 50 tests), run over our graphs.

They need a checkout of LangGraph in `$WESICHAIN_LANGGRAPH`: 38 of them pass, and `NOT_MAPPED` has the reasons why 12 cannot.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.graph.langgraph_shim import as_langgraph
from wesichain.graph import MemoryCheckpointer

INNER = (
    "a graph inside has no checkpoints to go back to: its steps belong to the outer graph's next checkpoint"
)
NOT_MAPPED = {
    "test_subgraph_interrupt_full_flow": INNER,
    "test_subgraph_replay_from_subgraph_checkpoint": INNER,
    "test_subgraph_time_travel_to_first_interrupt": INNER,
    "test_subgraph_time_travel_to_second_interrupt": INNER,
    "test_subgraph_time_travel_resume_from_first_interrupt": INNER,
    "test_subgraph_time_travel_resume_from_second_interrupt": INNER,
    "test_subgraph_time_travel_checkpoint_pattern": INNER,
    "test_3_levels_deep_time_travel_to_first_interrupt": INNER,
    "test_3_levels_deep_time_travel_to_second_interrupt": INNER,
    "test_3_levels_deep_time_travel_to_middle_subgraph": INNER,
    "test_3_levels_deep_middle_has_interrupts": INNER,
    "test_copy_fork_creates_sibling_checkpoint": "an update without values is an update, and says so",
}


def test_langgraphs_own_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = os.environ.get("WESICHAIN_LANGGRAPH")
    if not checkout:
        pytest.skip("set WESICHAIN_LANGGRAPH to a checkout of LangGraph to run its tests")
    path = Path(checkout) / "libs/langgraph/tests/test_time_travel.py"
    module = ModuleType("langgraph_time_travel")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # the module of its annotations
    with as_langgraph():
        exec(compile(path.read_text(), str(path), "exec"), vars(module))  # the file given by the user
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    failed: list[str] = []
    for name, test in tests.items():
        try:
            test(MemoryCheckpointer())
        except (AssertionError, NotImplementedError):
            failed.append(name)
    assert sorted(failed) == sorted(NOT_MAPPED)
    assert len(tests) == 50
