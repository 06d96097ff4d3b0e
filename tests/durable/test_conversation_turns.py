"""The turns of runs in conversations: each is added once, when its run has completed, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typing_extensions import override

from tests.virtual_time import in_virtual_time
from wesichain import Agent, Message, Role
from wesichain.agent import (
    Conversation,
    Conversations,
    MemoryConversations,
    PostgresConversations,
    RunMemory,
    SqliteConversations,
)
from wesichain.durable.conversation_turns import ConversationTurns
from wesichain.durable.workflow_ids import BeginWorkflow
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
        turns.follow("r", one, BeginWorkflow("q"), is_new=True)
        await asyncio.sleep(0.1)
    turns.follow("other", other, BeginWorkflow("q"), is_new=True)
    await asyncio.sleep(0.1)
    assert runs.asked == ["r", "r", "other"]
    await turns.catch_up(talk)
    assert await texts(talk) == [], "it is not over"
    runs.ended["r"].set()
    await turns.catch_up(talk)
    assert await texts(talk) == ["q", "answer of r"]
    assert await texts(other) == []
    turns.follow("r", talk, BeginWorkflow("q"), is_new=False)
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
    turns.follow("r", talk, BeginWorkflow("q"), is_new=True)
    await asyncio.sleep(0)
    runs.ended.setdefault("r", asyncio.Event()).set()
    await turns.close()
    assert await texts(talk) == ["q", "answer of r"]


@in_virtual_time
async def test_a_run_that_cannot_be_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    runs, talk = Runs(), Conversation()
    turns = ConversationTurns(runs.outcome, runs.status)
    turns.follow("gone", talk, BeginWorkflow("q"), is_new=True)
    await asyncio.sleep(0)
    runs.ended.setdefault("gone", asyncio.Event()).set()
    await asyncio.sleep(1)
    said = "the turn of the run gone was not added to its conversation: there is no run 'gone'"
    assert [record.getMessage() for record in caplog.records] == [said]


# --- several processes that add the turn of one run -------------------------------------------------

ASKED, ANSWERED = Message(Role.USER, "q\0"), Message(Role.ASSISTANT, "a")
Open = Callable[[], Conversations]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the store of a process; those in memory share one."""
    if request.param == "memory":
        shared = MemoryConversations()
        return lambda: shared
    if request.param == "sqlite":
        return lambda: SqliteConversations(tmp_path / "talks.sqlite")
    url: str = request.getfixturevalue("postgres")
    with psycopg.connect(url) as db:
        for table in ("wesichain_turns", "wesichain_conversations", "wesichain_conversations_schema"):
            db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
    return lambda: PostgresConversations(url)


async def test_a_turn_with_a_key_is_stored_once(open_store: Open) -> None:
    store, other = open_store(), open_store()
    talk = store.open("c")
    await talk.extend(ASKED, ANSWERED)
    assert await talk.extend_once("r", ASKED, ANSWERED)
    assert not await other.open("c").extend_once("r", ASKED, ANSWERED)
    assert [*await talk.read()] == [ASKED, ANSWERED] * 2, "a turn without a key is another one"
    assert await talk.extend_once("r2", ASKED, ANSWERED), "of another run"
    assert await talk.extend_once("r", ANSWERED), "a run that has the id of a deleted one"
    assert await other.open("d").extend_once("r", ASKED, ANSWERED), "in another conversation"
    assert not await talk.extend_once("r3")
    assert len(await talk.read()) == 7
    await store.delete("c")
    assert await talk.extend_once("r", ASKED, ANSWERED)
    await talk.extend(ASKED)
    assert len(await talk.read()) == 3


async def test_processes_that_add_a_turn_at_the_same_time_add_it_once(open_store: Open) -> None:
    talks = [open_store().open("c") for _ in range(4)]
    added = [talk.extend_once(run, ASKED, ANSWERED) for run in ("a", "b", "c") for talk in talks]
    others = asyncio.gather(*[talk.extend(ASKED) for talk in talks])
    assert sum(await asyncio.gather(*added)) == 3
    await others
    assert len(await talks[0].read()) == 3 * 2 + 4


class OnlyMemory(RunMemory):
    """A conversation that has nothing but what a run needs."""

    def __init__(self) -> None:
        self._talk = Conversation()

    @override
    async def read(self) -> Sequence[Message]:
        return await self._talk.read()

    @override
    async def extend(self, *messages: Message) -> None:
        await self._talk.extend(*messages)


class WithoutKeys(MemoryConversations):
    """A store of an earlier version of the protocol."""

    keeps_keys = False
    append_once = Conversations.append_once


@in_virtual_time
async def test_two_processes_that_follow_a_run_add_its_turn_once() -> None:
    store = MemoryConversations()
    in_memory, minimal, old = Conversation(), OnlyMemory(), WithoutKeys()
    shared: list[Callable[[], RunMemory]] = [
        lambda: store.open("c"),
        lambda: in_memory,
        lambda: minimal,
        lambda: old.open("c"),
    ]
    for number, opened in enumerate(shared):
        runs = Runs()
        here, there = (
            ConversationTurns(runs.outcome, runs.status),
            ConversationTurns(runs.outcome, runs.status),
        )
        here.follow("r", opened(), BeginWorkflow("q"), is_new=True)
        there.follow(
            "r", opened(), BeginWorkflow("q"), is_new=number < 2
        )  # with a key, who began it does not matter
        await asyncio.sleep(0)
        runs.ended["r"].set()
        await here.catch_up()
        await there.catch_up()
        assert [message.text for message in await opened().read()] == ["q", "answer of r"]
