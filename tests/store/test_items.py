"""Items: one contract, on every store."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.draws import draws
from tests.warm import python
from wesichain.errors import CodecError, ConfigError, StoreError
from wesichain.store import MemoryStore, PostgresStore, SqliteStore, Store
from wesichain.testing import FakeClock

pytestmark = pytest.mark.quick

ANN, BOB = ("users", "ann"), ("users", "bob")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "items.db", clock=clock)
        yield made
        made.close()
    else:
        url: str = request.getfixturevalue("postgres")
        with psycopg.connect(url) as db:
            db.execute("DROP TABLE IF EXISTS wesichain_items, wesichain_items_schema")
        pool = PostgresStore(url, clock=clock)
        yield pool
        asyncio.run(pool.close())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_put_is_returned_and_replaced(store: Store) -> None:
    assert await store.get(ANN, "name") is None
    await store.put(ANN, "name", {"first": "Ann", "tags": [1, None, "é"]})
    assert await store.get(ANN, "name") == {"first": "Ann", "tags": [1, None, "é"]}
    await store.put(ANN, "name", "Anna")
    assert await store.get(ANN, "name") == "Anna"
    assert [item.value for item in await store.search(ANN)] == ["Anna"]


async def test_a_namespace_is_a_wall(store: Store) -> None:
    for namespace in (ANN, BOB, ("users",), ("users", "ann", "notes"), ("users/ann",), ("users", "ann0")):
        await store.put(namespace, "k", list(namespace))
    assert sorted(item.namespace for item in await store.search(ANN)) == [ANN, ("users", "ann", "notes")]
    assert len(await store.search(("users",))) == 5
    assert len(await store.search(())) == 6
    assert await store.search(("user",)) == []
    assert [item.value for item in await store.search(("users/ann",))] == [["users/ann"]]


async def test_search_returns_the_newest_first_and_those_with_the_words(
    store: Store, clock: FakeClock
) -> None:
    for key, text in (("a", "likes green tea"), ("b", "drinks Tea and coffee"), ("c", "lives in Oslo")):
        await store.put(ANN, key, {"text": text})
        clock.advance(1)
    assert [item.key for item in await store.search(ANN)] == ["c", "b", "a"]
    assert [item.key for item in await store.search(ANN, limit=2)] == ["c", "b"]
    assert [item.key for item in await store.search(ANN, query="green tea?")] == ["a", "b"]
    assert [item.key for item in await store.search(ANN, query="OSLO")] == ["c"]
    assert await store.search(ANN, query="paris") == []
    await store.put(ANN, "d", {"seen": [{"city": "Paris"}, 3]})
    assert [item.key for item in await store.search(ANN, query="paris")] == ["d"]
    with pytest.raises(ConfigError, match="a number of items"):
        await store.search(ANN, limit=-1)


async def test_items_of_the_same_time_are_sorted_by_key(store: Store) -> None:
    for key, value in (("b", 1), ("a", 2), ("c", 0)):
        await store.put(ANN, key, value)
    assert [item.key for item in await store.search(ANN)] == ["a", "b", "c"]


async def test_a_deleted_item_is_gone(store: Store) -> None:
    await store.put(ANN, "k", 1)
    await store.put(BOB, "k", 2)
    await store.delete(ANN, "k")
    await store.delete(ANN, "k")
    assert await store.get(ANN, "k") is None
    assert await store.get(BOB, "k") == 2


@pytest.mark.parametrize(
    ("namespace", "key", "value", "error"),
    [
        pytest.param("users", "k", 1, ConfigError, id="a text is not a namespace"),
        pytest.param(("a", ""), "k", 1, ConfigError, id="an empty part"),
        pytest.param(("a", "b\0"), "k", 1, ConfigError, id="a NUL"),
        pytest.param(("a",), "", 1, ConfigError, id="an empty key"),
        pytest.param(("a",), "k", object(), CodecError, id="a value that is not JSON"),
        pytest.param(("a",), "k", float("nan"), CodecError, id="not a number"),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    store: Store, namespace: Any, key: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await store.put(namespace, key, value)
    assert await store.search(()) == []


async def test_a_value_is_nobody_elses_to_change(store: Store) -> None:
    value = {"list": [1]}
    await store.put(ANN, "k", value)
    value["list"].append(2)
    (await store.get(ANN, "k"))["list"].append(3)
    assert await store.get(ANN, "k") == {"list": [1]}


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("wesichain-")]


async def test_a_store_that_is_closed_leaves_no_thread_and_opens_again(store: Store) -> None:
    before = threads()
    await store.put(ANN, "k", 1)
    close: Any = getattr(store, "close", lambda: None)
    for _ in range(2):
        closing = close()
        if closing is not None:
            await closing
        assert not [thread for thread in threads() if thread not in before]
        assert await store.get(ANN, "k") == 1


async def test_many_writers_lose_nothing(store: Store) -> None:
    await asyncio.gather(*[store.put(ANN, f"k{index}", index) for index in range(40)])
    assert sorted(item.value for item in await store.search(ANN)) == list(range(40))  # type: ignore[type-var]


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
puts = st.lists(st.tuples(st.lists(names, max_size=3).map(tuple), names, json_values), max_size=8)


@draws(20)
@given(puts, st.lists(names, max_size=2).map(tuple))
@pytest.mark.parametrize("make", [MemoryStore, lambda: SqliteStore(":memory:")], ids=["memory", "sqlite"])
def test_a_store_is_a_dict_of_namespaces(
    make: Callable[[], Store], rows: list[tuple[tuple[str, ...], str, Any]], asked: tuple[str, ...]
) -> None:
    async def both() -> None:
        store, model = make(), dict[tuple[tuple[str, ...], str], Any]()
        for namespace, key, value in rows:
            await store.put(namespace, key, value)
            model[namespace, key] = value
        shown = {(item.namespace, item.key): item.value for item in await store.search(asked)}
        assert shown == {place: value for place, value in model.items() if place[0][: len(asked)] == asked}

    asyncio.run(both())


@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
async def test_another_process_reads_what_was_put_and_no_byte_of_what_is_gone(
    tmp_path: Path, is_replaced: bool
) -> None:
    path = tmp_path / "items.db"
    put = f"""
import asyncio
from wesichain.store import SqliteStore
store = SqliteStore({str(path)!r})
asyncio.run(store.put(("a",), "k", "a-secret-sentence"))
"""
    subprocess.run([*python(), "-c", put], check=True, cwd=ROOT)
    store = SqliteStore(path)
    assert await store.get(("a",), "k") == "a-secret-sentence"
    if is_replaced:
        await store.put(("a",), "k", "another-sentence")  # written by another process
        await store.put(("a",), "k", "a-secret-sentence")
        await store.put(("a",), "k", "the last")  # in the write-ahead log only
    else:
        await store.delete(("a",), "k")
    files = [file.read_bytes() for file in tmp_path.iterdir()]
    store.close()
    assert not [data for data in files if b"a-secret-sentence" in data]


async def test_a_new_file_that_another_writes_to_is_waited_for_and_no_longer_than_is_said(
    tmp_path: Path,
) -> None:
    path = tmp_path / "items.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(path, timeout=0.05)
    with pytest.raises(StoreError, match=r"the items in .*items\.db cannot be used: database is locked"):
        await store.put(ANN, "k", 1)
    other.execute("ROLLBACK")
    other.close()
    await store.put(ANN, "k", 1)
    store.close()
