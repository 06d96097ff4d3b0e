"""Pictures, documents and sounds through the loop: tasks, results, recordings, replays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.agent.kit import call, say
from wesichain.agent import Agent, Completed, Interrupted, replay
from wesichain.core import (
    ContentOmitted,
    Image,
    LlmResponse,
    Observation,
    Role,
    RunStarted,
    Text,
    ToolCompleted,
    from_json,
    to_json,
)
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


def test_a_task_is_texts_and_parts() -> None:
    llm = ScriptedLlm(["a cat"])
    result = Agent(llm).run_sync(["What is this?", PNG])
    (message,) = llm.requests[0].messages
    assert message.content == (Text("What is this?"), PNG)
    assert result.outcome.user_input == "What is this?"
    started = result.events[0]
    assert isinstance(started, RunStarted)
    assert started.parts == (Text("What is this?"), PNG)


def test_a_result_with_a_picture_reaches_the_model_the_steps_and_the_log() -> None:
    llm = ScriptedLlm([say(call("draw", {"what": "cat"})), "nice"])
    result = Agent(llm, tools=[draw]).run_sync("draw a cat")
    shown = llm.requests[1].messages[-1]
    assert shown.role is Role.TOOL
    assert PNG in shown.content
    (seen,) = [step for step in result.steps if isinstance(step, Observation)]
    assert PNG in seen.parts
    (told,) = [event for event in result.events if isinstance(event, ToolCompleted)]
    assert PNG in told.parts


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
