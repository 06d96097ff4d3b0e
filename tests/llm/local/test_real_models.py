"""What real models answer: smollm2-135m, and the default model.

These are a target of their own (`make test-model`); how a model is loaded, asked and stopped is in the files beside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.llm.local.test_model import EXAMPLE, request, user
from wesichain import Agent, Budget
from wesichain.core import Message, Role
from wesichain.llm.local import LocalLlm

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def llm(smol: Path) -> Iterator[LocalLlm]:
    model = LocalLlm(smol, threads=1, context=1024, max_tokens=64, examples=EXAMPLE)
    yield model
    model.close()


async def test_it_calls_a_tool_and_answers_with_its_result(llm: LocalLlm) -> None:
    messages = [user("What is 17 plus 25?")]
    first = await llm.complete(request(*messages))
    assert first.finish_reason == "tool_calls"
    assert [(call.name, call.args) for call in first.tool_calls] == [("add", {"a": 17, "b": 25})]
    messages.append(Message(Role.ASSISTANT, first.content, tool_calls=first.tool_calls))
    messages.append(Message(Role.TOOL, "42", tool_call_id=first.tool_calls[0].id))
    second = await llm.complete(request(*messages))
    assert second.finish_reason == "stop"
    assert "42" in second.content
    assert llm.timings is not None
    assert llm.timings.reused >= first.usage.input_tokens - 1
    assert llm.timings.read + llm.timings.reused == second.usage.input_tokens


async def test_an_agent_answers_sums_with_it(llm: LocalLlm) -> None:
    calls: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        calls.append((a, b))
        return a + b

    agent = Agent(llm, tools=[add], budget=Budget(steps=4))
    right = 0
    for a, b in ((31, 12), (8, 14), (52, 25)):
        result = await agent.run(f"What is {a} plus {b}?")
        right += str(a + b) in result.output and (a, b) in calls
    assert right >= 2, calls  # a model this small may miss one


async def test_it_counts_and_stops(llm: LocalLlm) -> None:
    text = await llm.complete_text("one, two, three, four,", stop=[" six"])
    assert text.startswith(" five")
    assert "six" not in text


# --- the default model ----------------------------------------------------------------------------


@pytest.mark.slow
def test_orders_are_sent_after_the_correction(default_model: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "local" / "learning.py"), str(default_model)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["1: not sent", "2: sent", "3: sent", "4: sent"]
