"""Pictures, documents and sounds through the loop: tasks, results, recordings, replays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.kit import call, say
from wesichain.agent import Agent, Completed, Interrupted, replay
from wesichain.core import (
    ContentOmitted,
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Text,
    TextChunk,
    from_json,
    to_json,
)
from wesichain.errors import LlmTransportError
from wesichain.llm import LlmTraits, StreamItem
from wesichain.llm.fallback import Fallback
from wesichain.llm.react_text import TextReAct
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, list_runs, load

PNG = Image(data=b"\x89PNG\r\n\x1a\n" + bytes(8), media_type="image/png")


@tool
async def draw(what: str) -> list[Any]:
    """Draw something."""
    return [f"a {what}", PNG]


@tool(approval=True)
async def keep() -> str:
    """Keep it."""
    return "kept"


def test_they_are_recorded_once_and_replayed(tmp_path: Path) -> None:
    script: list[Any] = [say(call("draw", {"what": "cat"})), "nice"]
    Agent(ScriptedLlm(script), tools=[draw], events=Recorder(tmp_path)).run_sync(["Like this:", PNG])
    (summary,) = list_runs(tmp_path)
    assert len([*tmp_path.glob("*.parts/*")]) == 1, "the bytes are kept once"
    recording = load(summary.path)
    again = asyncio.run(replay(recording, Agent(ScriptedLlm([]), tools=[draw])))
    assert isinstance(again, Completed)
    assert PNG in [part for message in again.messages for part in message.content]


def test_they_survive_an_interruption() -> None:
    script: list[Any] = [say(call("draw", {"what": "cat"}), call("keep")), "nice"]
    agent = Agent(ScriptedLlm(script), tools=[draw, keep])
    outcome = asyncio.run(agent.outcome(["Like this:", PNG]))
    assert isinstance(outcome, Interrupted)
    kind: Any = Interrupted
    stored: Any = from_json(kind, to_json(outcome))
    from wesichain.agent import Approve

    done = asyncio.run(agent.runtime.resume(stored, {stored.pending[0].token: Approve()}))
    assert isinstance(done, Completed)
    assert done.messages[0].content == (Text("Like this:"), PNG)


def test_what_a_model_could_not_be_given_is_told() -> None:
    reply = LlmResponse("I saw nothing", omitted=("[image left out: this model takes no image]",))
    result = Agent(ScriptedLlm([reply])).run_sync(["What is this?", PNG])
    (told,) = [event for event in result.events if isinstance(event, ContentOmitted)]
    assert told.omitted == reply.omitted


class OfText:
    """A model that says that it reads text alone."""

    traits = LlmTraits()

    def __init__(self) -> None:
        self.requests: list[LlmRequest] = []

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        return LlmResponse("nothing to see")


class OfTextAloud(OfText):
    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        yield TextChunk("nothing to see")
        yield LlmResponse("nothing to see")


@pytest.mark.parametrize("kind", [OfText, OfTextAloud])
async def test_a_model_of_text_reads_a_line_for_each_part_and_the_run_says_so(kind: type[OfText]) -> None:
    llm = kind()
    async with Agent(llm).stream(["What is this?", PNG]) as run:
        events = [event async for event in run]
    line = f"[left out: {PNG.label}; this model takes no image]"
    assert llm.requests[0].messages[-1].content == (Text("What is this?"), Text(line))
    (told,) = [event for event in events if isinstance(event, ContentOmitted)]
    assert told.omitted == (line,)
    assert run.result.messages[0].content == (Text("What is this?"), PNG), "the log keeps it"


def test_text_react_says_what_it_left_out() -> None:
    inner = OfText()
    result = Agent(TextReAct(inner, strict=False)).run_sync(["What is this?", PNG])
    assert [event.omitted for event in result.events if isinstance(event, ContentOmitted)]
    assert "left out: image" in inner.requests[0].messages[0].text


def test_each_model_of_a_fallback_is_sent_what_it_takes() -> None:
    class Busy:
        traits = LlmTraits(images=True)

        def __init__(self) -> None:
            self.seen: list[Message] = []

        async def complete(self, request: LlmRequest) -> LlmResponse:
            self.seen += request.messages
            raise LlmTransportError("busy", retryable=True)

    busy, text = Busy(), OfText()
    result = Agent(Fallback([busy, text])).run_sync(["What is this?", PNG])
    assert PNG in busy.seen[0].content
    assert PNG not in text.requests[0].messages[0].content
    assert [event.omitted for event in result.events if isinstance(event, ContentOmitted)]
