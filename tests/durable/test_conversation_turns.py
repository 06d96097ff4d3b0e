"""The turns of runs in conversations: each is added once, when its run has completed, and nothing is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.virtual_time import in_virtual_time
from wesichain import Agent
from wesichain.agent import Conversation
from wesichain.durable.conversation_turns import ConversationTurns
from wesichain.durable.workflow_ids import Begin
from wesichain.errors import DurableError
from wesichain.testing import ScriptedLlm


class Runs:
    """Runs by id, each of which ends when it is told to."""

    def __init__(self) -> None:
        self.ended: dict[str, asyncio.Event] = {}
        self.asked: list[str] = []

    async def outcome(self, run_id: str) -> Any:
        self.asked.append(run_id)
        await self.ended.setdefault(run_id, asyncio.Event()).wait()
        if run_id == "gone":
            raise DurableError("there is no run 'gone'")
        return await Agent(ScriptedLlm([f"answer of {run_id}"])).outcome("q")

    async def status(self, run_id: str) -> str:
        return "completed" if self.ended[run_id].is_set() else "running"


async def texts(talk: Conversation) -> list[str]:
    return [message.text for message in await talk.read()]


@in_virtual_time
async def test_the_turn_of_a_run_is_added_once_and_nothing_is_left() -> None:
    runs, talk, other = Runs(), Conversation(), Conversation()
    turns = ConversationTurns(runs.outcome, runs.status)
    for one in (talk, talk):  # the second time instead of the first
        turns.follow("r", one, Begin("q"), is_new=True)
        await asyncio.sleep(0.1)
    turns.follow("other", other, Begin("q"), is_new=True)
    await asyncio.sleep(0.1)
    assert runs.asked == ["r", "r", "other"]
    await turns.catch_up(talk)
    assert await texts(talk) == [], "it is not over"
    runs.ended["r"].set()
    await turns.catch_up(talk)
    assert await texts(talk) == ["q", "answer of r"]
    assert await texts(other) == []
    turns.follow("r", talk, Begin("q"), is_new=False)
    await asyncio.sleep(0.1)
    assert await texts(talk) == ["q", "answer of r"], "it is there already"
    assert [*turns._following] == ["other"], "what is over is followed no more"
    await turns.close()
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    runs.ended["other"].set()
    await asyncio.sleep(1)
    assert await texts(other) == [], "nobody follows it any more"


@in_virtual_time
async def test_turns_of_runs_that_are_over_are_added_before_the_end() -> None:
    runs, talk = Runs(), Conversation()
    turns = ConversationTurns(runs.outcome, runs.status)
    turns.follow("r", talk, Begin("q"), is_new=True)
    await asyncio.sleep(0)
    runs.ended.setdefault("r", asyncio.Event()).set()
    await turns.close()
    assert await texts(talk) == ["q", "answer of r"]


@in_virtual_time
async def test_a_run_that_cannot_be_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    runs, talk = Runs(), Conversation()
    turns = ConversationTurns(runs.outcome, runs.status)
    turns.follow("gone", talk, Begin("q"), is_new=True)
    await asyncio.sleep(0)
    runs.ended.setdefault("gone", asyncio.Event()).set()
    await asyncio.sleep(1)
    said = "the run gone is not added to its conversation: there is no run 'gone'"
    assert [record.getMessage() for record in caplog.records] == [said]
