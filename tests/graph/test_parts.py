"""Parts in checkpoints: their bytes are stored once, by their hash, and never as base64 in a text."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws, sampled
from tests.graph.kit import T
from tests.graph.processes import Mortal
from wesichain import Agent, ReActAgentNode, tool
from wesichain.agent import Approve
from wesichain.core import Audio, Document, Image, LlmResponse, Message, Part, Role, Text, ToolCall
from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    Append,
    Checkpointer,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    ThreadEntry,
    compact,
    copy_thread,
    interrupt,
    prune,
    react_graph,
)
from wesichain.graph.checkpoints.parts import apart, together
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
WAV = b"RIFF1234WAVEfmt " + bytes(range(255, -1, -1)) * 20
GOLDEN = Path(__file__).parent / "golden" / "parts_v1.sql"


class Album(TypedDict, total=False):
    messages: Annotated[list[Message], Append]
    cover: Image
    parts: Annotated[list[Part], Append]
    loose: Any


def picture() -> Image:
    return Image(data=PNG, media_type="image/png")


def album(store: Checkpointer) -> Graph[Album]:
    """Parts in messages, in typed keys, in Sends, in questions and in answers."""

    def fill(_: Album) -> Any:
        sound = Audio(data=WAV, media_type="audio/wav")
        paper = Document(data=PNG, media_type="application/pdf", name="a.pdf")
        return {
            "messages": [Message(Role.USER, (Text("see"), picture(), paper))],
            "cover": picture(),
            "parts": [sound, picture()],
            "loose": {"deep": [picture(), {"kind": "image", "media_type": "image/png", "data": "AAAA"}]},
        }

    def ask(_: Album) -> Any:
        return {"parts": [interrupt({"look": picture()})]}

    def show(payload: Any) -> Any:
        return {"messages": [Message(Role.ASSISTANT, (payload["image"],))]}

    builder = GraphBuilder(Album).add_node("fill", fill).add_node("ask", ask).add_node("show", show)
    builder.add_conditional_edges(
        "fill", lambda _: ["ask", Send("show", {"image": picture()})], ["ask", "show"]
    )
    return builder.set_entry("fill").build(store)


def small(store: Checkpointer) -> Graph[Album]:
    """State that the previous version could store: parts in messages and in keys of their types."""

    def fill(_: Album) -> Any:
        message = Message(Role.USER, (Text("see"), picture()))
        return {"messages": [message], "cover": picture(), "parts": [picture(), Text("a")]}

    def ask(_: Album) -> Any:
        return {"messages": [Message(Role.USER, interrupt("more?"))]}

    builder = GraphBuilder(Album).add_node("fill", fill).add_node("ask", ask).add_edge("fill", "ask")
    return builder.set_entry("fill").build(store)


def check(done: Any) -> None:
    assert done["cover"] == picture()
    assert done["messages"][0].content[1:] == (
        picture(),
        Document(data=PNG, media_type="application/pdf", name="a.pdf"),
    )
    assert done["messages"][1].content == (picture(),)
    assert done["parts"] == [
        Audio(data=WAV, media_type="audio/wav"),
        picture(),
        Document(data=WAV, media_type="application/pdf"),
    ]
    assert done["loose"] == {
        "deep": [picture(), {"kind": "image", "media_type": "image/png", "data": "AAAA"}]
    }


async def filled(store: Checkpointer) -> None:
    with pytest.raises(GraphInterruptedError) as caught:
        await album(store).invoke({}, T)
    assert caught.value.interrupts[0].value == {"look": picture()}


async def finished(store: Checkpointer, thread: str = "t") -> None:
    check(await album(store).resume(thread, Document(data=WAV, media_type="application/pdf")))
    check((await album(store).get_state(thread)).values)


async def texts(store: Checkpointer, thread: str = "t") -> str:
    return "\n".join(entry.body for entry in await store.read(thread, since=1))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    if request.param == "memory":
        yield MemoryCheckpointer()
    elif request.param == "sqlite":
        found = SqliteCheckpointer(tmp_path / "t.db")
        yield found
        found.close()
    else:
        url = request.getfixturevalue("postgres")
        with psycopg.connect(url) as db:
            db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")
        kept = PostgresCheckpointer(url)
        yield kept
        asyncio.run(kept.close())


def kept_parts(store: Checkpointer) -> int:
    """The number of parts in the store, of all its threads."""
    found: Any = store
    if isinstance(store, MemoryCheckpointer):
        return sum(len(thread.parts) for thread in found._logs._logs.values())
    if isinstance(store, SqliteCheckpointer):
        return int(
            found._logs.database.run_now(lambda db: db.execute("SELECT count(*) FROM parts").fetchone()[0])
        )
    count = found._logs.database.run(
        lambda db: db.execute("SELECT count(*) FROM wesichain_parts").fetchone()[0]
    )
    return int(asyncio.run(count))


def test_bytes_are_kept_once_and_come_back(store: Checkpointer) -> None:
    asyncio.run(filled(store))
    asyncio.run(finished(store))
    for data in (PNG, WAV):
        assert b64encode(data).decode()[:40] not in asyncio.run(texts(store))
    assert kept_parts(store) == 3  # an image, audio, and an object that only resembles a part


def test_what_nobody_needs_is_removed(store: Checkpointer) -> None:
    asyncio.run(filled(store))
    asyncio.run(copy_thread(store, "t", "copy"))
    asyncio.run(compact(store, "copy"))
    asyncio.run(finished(store, "copy"))
    fork = asyncio.run(album(store).fork("t", asyncio.run(album(store).get_state("t")).checkpoint_id))
    asyncio.run(finished(store, fork))
    before = kept_parts(store)
    asyncio.run(store.delete("copy"))
    assert kept_parts(store) == before - 3
    asyncio.run(album(store).update_state("t", {"loose": 1}))
    asyncio.run(compact(store, "t"))
    assert kept_parts(store) == before - 4
    asyncio.run(prune(store, older_than=-1e12))
    assert kept_parts(store) == 0


class Plain(Mortal):
    """A store without support for parts."""


def test_a_store_that_keeps_no_parts_has_them_in_its_texts(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "t.db")
    asyncio.run(filled(Plain(store)))
    assert b64encode(PNG).decode()[:40] in asyncio.run(texts(store))
    asyncio.run(finished(store))  # and one with support continues with it
    store.close()


def test_a_file_of_the_version_before_opens(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(GOLDEN.read_text(encoding="utf-8"))
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    store = SqliteCheckpointer(path)
    graph = small(store)
    assert asyncio.run(graph.get_state("t")).values["cover"] == picture()
    done = asyncio.run(graph.resume("t", "yes"))
    whole = [Message(Role.USER, (Text("see"), picture())), Message(Role.USER, "yes")]
    assert (done["messages"], done["cover"], done["parts"]) == (whole, picture(), [picture(), Text("a")])
    asyncio.run(compact(store, "t"))
    # Values that are not written again keep their stored form: the cover and the list, not the message.
    assert asyncio.run(texts(store)).count(b64encode(PNG).decode()) == 2
    assert asyncio.run(graph.get_state("t")).values == done
    store.close()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "store"),
    sampled([*product(["steps", "node", "agent"], ["memory", "sqlite", "postgres"])], 4),
    indirect=["store"],
)
def test_a_tool_that_gives_a_picture_gives_it_after_a_resume(kind: str, store: Checkpointer) -> None:
    """The image is in the record, in the memo of the question, and in the messages."""
    taken: list[int] = []

    @tool
    def camera() -> Image:
        """Take a picture."""
        taken.append(1)
        return picture()

    @tool(approval=True)
    def send(to: str) -> str:
        """Send it."""
        return f"sent to {to}"

    seen: list[Any] = []

    def reply(request: Any) -> LlmResponse:
        told = [message for message in request.messages if message.role is Role.TOOL]
        seen[:] = [message.content for message in told]
        if len(told) < 2:
            call = [ToolCall("c0", "camera", {}), ToolCall("c1", "send", {"to": "bob"})][len(told)]
            return LlmResponse("", (call,))
        return LlmResponse("done")

    def make() -> Any:
        tools = [camera, send]
        if kind == "steps":
            return react_graph(llm=FunctionLlm(reply), tools=tools, checkpointer=store)
        node: Any = ReActAgentNode(llm=FunctionLlm(reply), tools=tools)
        if kind == "agent":
            node = Agent(FunctionLlm(reply), tools=tools)
        return GraphBuilder().add_node("work", node).set_entry("work").build(store)

    with pytest.raises(GraphInterruptedError):
        asyncio.run(make().invoke({"input": "q"}, T))
    assert b64encode(PNG).decode()[:40] not in asyncio.run(texts(store))
    asyncio.run(make().resume("t", Approve()))
    assert picture() in seen[0]
    assert taken == [1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "data", "url", "media_type", "name", "x"]), inner, max_size=4
        )
        | st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["image", "document", "audio", "text"]),
                "media_type": st.just("image/png") | inner,
                "data": st.binary(max_size=12).map(lambda data: b64encode(data).decode())
                | st.text(max_size=6),
            }
        )
    ),
    max_leaves=12,
)


@draws(40)
@given(JSON)
def test_whatever_looks_like_a_part_is_given_back_as_it_was(data: Any) -> None:
    entry = ThreadEntry(1, "", 1, 0.0, dump_json({"values": data}))
    kept = apart(entry)
    assert dump_json(together(kept, parse_json(kept.body))) == entry.body


DATA = b64encode(b"picture").decode()


@pytest.mark.parametrize(
    ("part", "is_kept_apart"),
    [
        ({"kind": "image", "media_type": "image/png", "data": DATA}, True),
        ({"kind": "image", "media_type": "image/png", "data": DATA, "url": "http://x"}, False),
        ({"kind": "image", "media_type": "image/png", "data": "no base64!"}, False),
        ({"kind": "image", "media_type": "image/png", "data": "cGlj\n"}, False),
        ({"kind": "image", "media_type": "image/png", "data": 5, "other": {"data": "x"}}, False),
        ({"kind": "note", "media_type": "image/png", "data": DATA}, False),
        ({"kind": "image", "media_type": None, "data": DATA}, False),
    ],
)
def test_the_bytes_of_a_part_are_kept_apart_where_they_can_be_given_back(
    part: Any, is_kept_apart: bool
) -> None:
    body = {"values": [{"deep": part}]}
    whole = ThreadEntry(1, "", 1, 0.0, json.dumps(body, separators=(",", ":")))
    kept = apart(whole)
    assert [*kept.parts.values()] == ([b"picture"] if is_kept_apart else [])
    assert (DATA in kept.body) == (not is_kept_apart and part.get("data") == DATA)
    assert together(kept, json.loads(kept.body)) == body
