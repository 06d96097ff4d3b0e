"""Seams: a hook that was set before is called around them, and restored after them."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests import expected
from tests.trace.test_whole_traces import RUNS, TRACES, traced
from wesichain.core.internal import around
from wesichain.testing.seams import RunTool, Seam, installed
from wesichain.tools import ToolRegistry
from wesichain.trace import Metrics


class Passing(Seam):
    """A seam that changes nothing."""

    def __init__(self, *, is_active: bool) -> None:
        self._is_active = is_active

    def is_active(self) -> bool:
        return self._is_active

    def model(self, llm: object, request: Any, reply: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        return reply

    def tool(self, run: RunTool, prepared: Any, ctx: Any) -> Coroutine[Any, Any, Any]:
        return run(prepared, ctx)

    def opened(self, agent: str) -> None:
        return None


@pytest.mark.parametrize("is_active", [False, True])
@pytest.mark.parametrize("name", ["a-graph", "an-agent-inside"])
async def test_what_is_traced_stays_as_it_was(name: str, is_active: bool) -> None:
    async def run() -> Any:
        with installed(Passing(is_active=is_active)):
            return await RUNS[name]()

    expected.check(TRACES / f"{name}.txt", await traced(run, Metrics(), content=False))


class Before:
    """A hook that records its calls."""

    def __init__(self) -> None:
        self.received: list[str] = []

    def responded(self, *, id: str, model: str) -> None:
        self.received.append(f"{id} by {model}")

    def conversation(self, id: str) -> AbstractContextManager[None]:
        self.received.append(id)
        return nullcontext()


@pytest.mark.parametrize("before", [None, Before()])
def test_a_hook_that_was_set_before_is_called_and_restored(
    before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(around, "hook", before)
    run = ToolRegistry.run
    with installed(Passing(is_active=False)), installed(Passing(is_active=True)):
        hook: Any = around.hook
        hook.responded(id="x", model="m")
        with hook.conversation("c"):
            assert ToolRegistry.run is not run
    assert before is None or before.received == ["x by m", "c"]
    assert (around.hook, ToolRegistry.run) == (before, run)
