"""What real models answer: smollm2-135m here and behind its server, and the default model.

These are a target of their own (`make test-model`); how a model is loaded, asked and stopped is in the files beside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.conftest import ROOT
from tests.llm.local.test_model import EXAMPLE, request, user
from tests.llm.local.test_served import ADD, KEY, asked, client
from wesichain import Agent, Budget
from wesichain.core import LlmResponse, Message, Role, TextChunk, ToolCallChunk
from wesichain.core.internal import parse_json
from wesichain.llm.local import LocalLlm, serve_local
from wesichain.llm.openai import OpenAiClient
from wesichain.llm.react_text import TextReAct

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


# --- behind its server ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(smol: Path) -> Iterator[str]:
    with serve_local(smol, threads=1, context=512, key=KEY) as url:
        yield url


CALLED = [("math.add", {"a": 17, "b": 25})]


async def test_a_model_this_small_calls_tools_whole_and_in_pieces(base: str) -> None:
    async with client(base, tokens=60) as llm:
        reply = await llm.complete(asked("What is 17 plus 25?", ADD))
        *pieces, whole = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
    assert isinstance(whole, LlmResponse)
    for each in (reply, whole):
        assert [(call.name, call.args) for call in each.tool_calls] == CALLED
        assert (each.finish_reason, each.content) == ("tool_calls", "")
    assert [piece.name for piece in pieces if isinstance(piece, ToolCallChunk)] == ["math.add"]
    assert not [piece for piece in pieces if isinstance(piece, TextChunk)]


async def test_a_text_with_a_brace_is_no_fault(base: str) -> None:
    """Where the server looks for calls in the text, this was an error 500."""
    async with client(base, tokens=25) as llm:
        for text in ("Write {'a': 1} and nothing else.", 'Repeat: {"name": "math.add", "arguments": {'):
            reply = await llm.complete(asked(text, ADD))
            assert reply.finish_reason in ("stop", "tool_calls", "length")


@pytest.mark.slow
async def test_text_react_works_over_it(base: str) -> None:
    async with client(base, tokens=30) as llm:
        reply = await TextReAct(llm).complete(asked("What is 2 plus 5?", ADD))
    assert reply.content or reply.tool_calls
    assert reply.usage.input_tokens > 100  # the prompt with the tools and the format


# --- the default model ----------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_default_model_calls_tools_through_it(default_model: Path) -> None:
    """Its own template shows calls in double braces, which llama.cpp does not recognise."""
    with serve_local(default_model, threads=1, context=1024) as url:
        async with AsyncOpenAI(base_url=url, api_key="none", timeout=900, max_retries=0) as sdk:
            reply = await sdk.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": "What is 17 plus 25?"}],
                tools=[{"type": "function", "function": {"name": "add", "parameters": dict(ADD.parameters)}}],
                temperature=0,
                max_tokens=60,
            )
        async with OpenAiClient(
            "default", base_url=url, deadline=900, options={"max_tokens": 60, "temperature": 0}
        ) as llm:
            *_, whole = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
            braces = await llm.complete(asked("Write a Python function that returns {'a': 1}.", ADD))
    calls: Any = reply.choices[0].message.tool_calls
    (call,) = calls
    assert call.type == "function"
    assert (call.function.name, parse_json(call.function.arguments)) == ("add", {"a": 17, "b": 25})
    assert reply.choices[0].finish_reason == "tool_calls"
    assert isinstance(whole, LlmResponse)
    assert [(call.name, call.args) for call in whole.tool_calls] == CALLED
    assert braces.finish_reason in ("stop", "tool_calls", "length")


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
