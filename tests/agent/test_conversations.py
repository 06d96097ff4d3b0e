"""Conversations that last: the contract on every store, many processes, kill -9, and files that are spoiled."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.agent.talking import open_store
from tests.conftest import ROOT
from tests.draws import draws
from tests.warm import python
from wesichain.agent import (
    Agent,
    Approve,
    Completed,
    Conversation,
    Conversations,
    Interrupted,
    MemoryConversations,
    PostgresConversations,
    SqliteConversations,
)
from wesichain.agent.memory.stored_conversations import (
    APPLICATION_ID,
    POSTGRES_MIGRATIONS,
    SQLITE_MIGRATIONS,
)
from wesichain.agent.memory.stores import Turn
from wesichain.core import Image, Message, Role, ToolCall, from_json, to_json
from wesichain.errors import ConfigError, ConversationError
from wesichain.testing import ConversationsContract, FakeClock, ScriptedLlm, calls
from wesichain.testing.conversations import assert_complete, texts
from wesichain.tools import tool

TABLES = ("wesichain_turns", "wesichain_conversations", "wesichain_conversations_schema")
ASKED, ANSWERED = Message(Role.USER, "question 0.0"), Message(Role.ASSISTANT, "answer 0.0")


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        for table in TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")


class TestMemoryConversations(ConversationsContract):
    @override
    async def make(self) -> Conversations:
        return MemoryConversations()


class TestSqliteConversations(ConversationsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @override
    async def make(self) -> Conversations:
        return SqliteConversations(self.folder / "talks.sqlite")

    @override
    async def done(self, store: Conversations) -> None:
        assert isinstance(store, SqliteConversations)
        store.close()


class TestPostgresConversations(ConversationsContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        forget(postgres)
        self.url = postgres

    @override
    async def make(self) -> Conversations:
        return PostgresConversations(self.url)

    @override
    async def done(self, store: Conversations) -> None:
        assert isinstance(store, PostgresConversations)
        await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that outlives its process: a file that is not there yet, or a database without our tables."""
    if request.param == "sqlite":
        return str(tmp_path / "talks.sqlite")
    url: str = request.getfixturevalue("postgres")
    forget(url)
    return url


def read(where: str, id: str = "c") -> list[Message]:
    async def main() -> list[Message]:
        store = open_store(where)
        found = [*await store.open(id).read()]
        closing = store.close()  # type: ignore[attr-defined]
        if closing is not None:
            await closing
        return found

    return asyncio.run(main())


def talking(where: str, name: str, turns: int, *waits: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*python(), "-m", "tests.agent.talking", where, name, str(turns), *waits],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_begin_at_the_same_moment_lose_nothing(where: str) -> None:
    running = [talking(where, str(name), 5, "wait") for name in range(4)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:  # all of them create the file, or the tables
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=120) for process in running]
    assert [complaint for _, complaint in ended] == [""] * 4
    assert_complete(read(where), writers=4, turns=5)


@pytest.mark.parametrize("after", [1, 30])
def test_kill_9_loses_nothing_that_was_told_as_kept(where: str, after: int) -> None:
    writers = [talking(where, str(name), 0) for name in range(2)]
    victim, other = writers
    assert victim.stdout is not None
    told = [victim.stdout.readline().strip() for _ in range(after)]
    for process in writers:
        process.send_signal(signal.SIGKILL)
    told += victim.stdout.read().split()
    _, complaint = victim.communicate(timeout=60)
    told_by_other, _ = other.communicate(timeout=60)
    assert victim.returncode == -signal.SIGKILL, complaint
    said = texts(read(where))
    kept = [text.removeprefix("question ") for text in said[::2]]
    assert kept == [text.removeprefix("answer ") for text in said[1::2]], "a turn was torn"
    for name, heard in (("0", told), ("1", told_by_other.split())):
        own = [one for one in kept if one.startswith(f"{name}.")]
        assert own[: len(heard)] == heard
        assert len(own) <= len(heard) + 1, "at most the turn that nobody heard of"


# --- what a run makes of it --------------------------------------------------------------------------


@pytest.mark.parametrize("is_saved", [False, True], ids=["in-hand", "from-its-json"])
async def test_the_parts_of_a_question_are_kept_also_by_the_run_that_waited(is_saved: bool) -> None:
    @tool(approval=True)
    async def look() -> str:
        """Look."""
        return "a cat"

    picture = Image(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    task: Any = ["what is this?", picture]
    store = MemoryConversations()
    earlier = Message(Role.USER, "hello"), Message(Role.ASSISTANT, "hi")
    await store.open("c").extend(*earlier)
    agent = Agent(ScriptedLlm([calls(("look", {})), "a cat"]), tools=[look], instructions="be brief")
    waiting: Any = await agent.outcome(task, conversation=store.open("c"))
    if is_saved:
        waiting = from_json(Interrupted[str], to_json(waiting))
    decisions = {item.token: Approve() for item in waiting.pending}
    await agent.resume(waiting, decisions, conversation=store.open("c"))
    turn = Message(Role.USER, task), Message(Role.ASSISTANT, "a cat")
    assert tuple(await store.open("c").read()) == (*earlier, *turn)


async def test_an_answer_that_cannot_be_kept_is_in_the_error(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "c.sqlite", timeout=0.2)
    await store.list()
    blocker = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConversationError, match="locked") as caught:
        await Agent(ScriptedLlm(["dear bought"])).run("q", conversation=store.open("c"))
    outcome: Completed[str] = caught.value.outcome
    assert (type(outcome), outcome.text) == (Completed, "dear bought")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert await store.list() == []
    store.close()


async def test_a_store_that_cannot_be_read_stops_the_run_before_the_model_is_asked(tmp_path: Path) -> None:
    llm = ScriptedLlm(["x"])
    missing = SqliteConversations(tmp_path / "nowhere" / "c.sqlite")
    with pytest.raises(ConversationError, match="nowhere"):
        await Agent(llm).run("q", conversation=missing.open("c"))
    assert llm.requests == []


async def test_a_resume_wants_a_conversation_too() -> None:
    agent = Agent(ScriptedLlm([]))
    outcome: Any = await agent.outcome("q")
    with pytest.raises(ConfigError, match="pass a Conversation"):
        await agent.resume(outcome, conversation="c")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("id", [None, 7, b"c", "\ud800"])
def test_an_id_is_a_text(id: Any) -> None:
    with pytest.raises(ConfigError, match=r"is a text|lone surrogate"):
        MemoryConversations().open(id)


async def test_what_is_no_message_is_refused_and_nothing_of_its_turn_is_kept() -> None:
    store = MemoryConversations()
    with pytest.raises(ConfigError, match="is not a Message"):
        await store.open("c").extend(ASKED, "answer")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ConfigError, match="is not a Message"):
        await store.open("c").extend_once("r1", ASKED, "answer")  # type: ignore[arg-type]  # as above
    assert await store.list() == []


async def test_text_that_no_file_can_hold_is_an_error_of_ours(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "c.sqlite")
    with pytest.raises(ConversationError, match="'c' cannot keep the turn"):
        await store.open("c").extend(Message(Role.USER, "\udc80"))
    assert await store.list() == []
    store.close()


# --- the law of the window ---------------------------------------------------------------------------

_WORDS = st.text("ab", max_size=12)


def _pair(asked: str, answered: str) -> Turn:
    return Message(Role.USER, asked), Message(Role.ASSISTANT, answered)


def _calling(found: str, answered: str) -> Turn:
    call = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("1", "f", {}),))
    return call, Message(Role.TOOL, found, "1"), Message(Role.ASSISTANT, answered)


def _ruling(rule: str, asked: str) -> Turn:
    return Message(Role.SYSTEM, rule), *_pair(asked, "yes")


_KINDS = (_pair, _pair, _calling, _ruling)
_TURNS = st.lists(st.one_of([st.builds(kind, _WORDS, _WORDS) for kind in _KINDS]), max_size=80)


@draws(15)
@given(turns=_TURNS, max_tokens=st.one_of(st.none(), st.integers(0, 600)))
def test_reading_in_pages_shows_what_reading_all_would(turns: list[Turn], max_tokens: int | None) -> None:
    async def main() -> tuple[Message, ...]:
        store = MemoryConversations()
        for turn in turns:
            await store.append("c", turn)
        return tuple(await store.open("c", max_tokens, count_tokens=len).read())

    memory = Conversation(max_tokens, count_tokens=len)
    memory.add(*[message for turn in turns for message in turn])
    assert asyncio.run(main()) == memory.window()


# --- the file ----------------------------------------------------------------------------------------


async def test_a_turn_has_the_time_of_the_clock_that_was_given(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "c.sqlite", clock=FakeClock())
    await store.open("c").extend(ASKED, ANSWERED)
    store.close()
    db = sqlite3.connect(tmp_path / "c.sqlite")
    assert db.execute("SELECT at FROM turns").fetchone() == (FakeClock().time(),)
    db.close()


def test_a_turn_that_is_none_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "spoiled.sqlite"
    store = SqliteConversations(path)
    asyncio.run(store.open("c").extend(ASKED))
    store.close()
    db = sqlite3.connect(path)
    db.execute("""UPDATE turns SET body = '[{"role": "pope"}]'""")
    db.commit()
    db.close()
    before = path.read_bytes()
    store = SqliteConversations(path)
    with pytest.raises(ConversationError, match="'c' has a turn that cannot be read"):
        asyncio.run(_read(store))
    store.close()
    assert path.read_bytes() == before


async def _read(store: Conversations) -> list[Message]:
    return [*await store.open("c").read()]


async def test_the_loop_goes_on_while_a_store_waits_for_a_lock(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "c.sqlite")
    await store.list()
    blocker = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.open("c").extend(ASKED))
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not writing.done()
    blocker.execute("ROLLBACK")
    blocker.close()
    await writing
    assert await _read(store) == [ASKED]
    store.close()


async def test_who_is_cancelled_while_a_turn_is_written_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "c.sqlite")
    for _ in range(20):
        writing = asyncio.ensure_future(store.open("c").extend(ASKED, ANSWERED))
        await asyncio.sleep(0)
        writing.cancel()
    assert set(map(tuple, await store.read("c"))) <= {(ASKED, ANSWERED)}
    store.close()


# --- tables of the first schema ----------------------------------------------------------------------

_OLD_TURNS = (("a", "hello", 0), ("b", "rule", 1), ("a", "again", 0), ("c", "x", 0), ("b", "after", 0))


def _old_body(text: str) -> str:
    return to_json((Message(Role.SYSTEM if text == "rule" else Role.USER, text),))


async def _goes_on(store: Conversations) -> None:
    """What was said under the first schema is there, in its order, and the talk goes on behind it."""
    assert await store.list() == ["b", "c", "a"]
    assert texts(await store.open("a").read()) == ["hello", "again"]
    await store.open("a").extend(Message(Role.USER, "new"))
    assert await store.list() == ["a", "b", "c"]
    assert texts(await store.open("a").read()) == ["hello", "again", "new"]
    assert [texts(turn)[0] for turn in await store.read("b", newest=1)] == ["rule", "after"]
    await store.delete("b")
    assert await store.list() == ["a", "c"]


async def test_a_file_of_the_first_schema_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    db = sqlite3.connect(path)
    db.executescript(SQLITE_MIGRATIONS[0])
    for place, name in enumerate("abc", start=1):
        db.execute("INSERT INTO conversations VALUES (?, ?, 0)", (place, name.encode()))
    for name, text, is_rule in _OLD_TURNS:
        row = ("abc".index(name) + 1, 1.0, is_rule, _old_body(text))
        seq = db.execute("INSERT INTO turns (conversation, at, has_system, body) VALUES (?, ?, ?, ?)", row)
        db.execute("UPDATE conversations SET newest = ? WHERE id = ?", (seq.lastrowid, row[0]))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    store = SqliteConversations(path)
    await _goes_on(store)
    store.close()


async def test_tables_of_the_first_schema_are_opened(postgres: str) -> None:
    forget(postgres)
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute(POSTGRES_MIGRATIONS[0])
        db.execute("CREATE TABLE wesichain_conversations_schema (version INTEGER NOT NULL)")
        db.execute("INSERT INTO wesichain_conversations_schema VALUES (1)")
        for name in "abc":
            row = (sha256(name.encode()).digest(), name.encode())
            db.execute("INSERT INTO wesichain_conversations (key, name, newest) VALUES (%s, %s, 0)", row)
        for name, text, is_rule in _OLD_TURNS:
            db.execute(
                "WITH kept AS (INSERT INTO wesichain_turns (turn_id, conversation, at, has_system, body) "
                "SELECT gen_random_uuid(), id, 1.0, %s, %s FROM wesichain_conversations WHERE name = %s "
                "RETURNING seq, conversation) "
                "UPDATE wesichain_conversations SET newest = kept.seq FROM kept WHERE id = kept.conversation",
                (bool(is_rule), _old_body(text), name.encode()),
            )
    store = PostgresConversations(postgres)
    await _goes_on(store)
    await store.close()
    forget(postgres)
