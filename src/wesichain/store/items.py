"""Items: JSON values under a namespace and a key, which outlive runs and threads.

A namespace is a tuple of texts, `("users", "ann")`, like the folders of a path. The rules: a put replaces the
item of that namespace and key atomically; a get returns an equal value, as a copy; a search returns the items
of a namespace and of those below it only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from threading import RLock
from typing import Any, Protocol, TypeAlias, runtime_checkable

from typing_extensions import override

from wesichain.core import JsonValue
from wesichain.core.internal import Clock, SystemClock, Value, dump_json, is_array, is_object, parse_json
from wesichain.errors import ConfigError

Namespace: TypeAlias = tuple[str, ...]
_WORD = re.compile(r"\w+")


class StoreItem(Value):
    """A value with its namespace and key, and the time at which it was put."""

    namespace: Namespace
    key: str
    value: JsonValue
    updated_at: float


@runtime_checkable
class Store(Protocol):
    """Stores items. Every call is atomic; event loops, threads and processes may share a store."""

    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        """Store a JSON value, replacing an earlier one."""
        ...

    async def get(self, namespace: Sequence[str], key: str) -> Any:
        """Return the value, or None if there is none."""
        ...

    async def search(
        self, namespace: Sequence[str], *, query: str = "", limit: int | None = None
    ) -> list[StoreItem]:
        """Return the items of a namespace and of all below it, the newest first.

        With a `query`, return those whose key or value contains one of its words, best matches first.
        """
        ...

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        """Remove an item. Deleting an unknown item does nothing."""
        ...


class MemoryStore(Store):
    """Stores items in memory. Event loops and threads of the process may share it."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._rows: dict[tuple[str, str], ItemRow] = {}
        self._lock = RLock()

    @override
    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        place, text = path_of(namespace), text_of(value)
        with self._lock:
            self._rows.pop((place, checked_key(key)), None)
            self._rows[place, key] = (place, key, text, self._clock.time())

    @override
    async def get(self, namespace: Sequence[str], key: str) -> Any:
        row = self._rows.get((path_of(namespace), checked_key(key)))
        return None if row is None else parse_json(row[2])

    @override
    async def search(
        self, namespace: Sequence[str], *, query: str = "", limit: int | None = None
    ) -> list[StoreItem]:
        place = path_of(namespace)
        with self._lock:
            rows = [row for row in self._rows.values() if row[0].startswith(place)]
        return search_results(sorted(rows, key=lambda row: (-row[3], row[1])), query, limit)

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        with self._lock:
            self._rows.pop((path_of(namespace), checked_key(key)), None)


class SqlStore(Store):
    """Stores items in a table of a database. `run` executes a job on one of its connections; `mark` is the
    placeholder of a value in a statement.
    """

    def __init__(
        self, run: Callable[..., Coroutine[Any, Any, Any]], table: str, *, mark: str, clock: Clock | None
    ) -> None:
        self._run: Callable[[Callable[[Any], Any]], Coroutine[Any, Any, Any]] = run
        self._clock = clock or SystemClock()
        at_place = f"WHERE namespace = {mark} AND key = {mark}"
        self._put = (
            f"INSERT INTO {table} (namespace, key, value, at) VALUES ({mark}, {mark}, {mark}, {mark}) "  # noqa: S608  # no values
            f"ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, at = excluded.at"
        )
        self._get = f"SELECT value FROM {table} {at_place}"  # noqa: S608  # no values
        self._delete = f"DELETE FROM {table} {at_place}"  # noqa: S608  # no values
        self._search = (
            f"SELECT namespace, key, value, at FROM {table} "  # noqa: S608  # no values
            f"WHERE namespace >= {mark} AND namespace < {mark} ORDER BY at DESC, key"
        )

    @override
    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        row = (path_of(namespace), checked_key(key), text_of(value), self._clock.time())
        await self._run(lambda db: db.execute(self._put, row).close())

    @override
    async def get(self, namespace: Sequence[str], key: str) -> Any:
        place = (path_of(namespace), checked_key(key))
        row = await self._run(lambda db: db.execute(self._get, place).fetchone())
        return None if row is None else parse_json(row[0])

    @override
    async def search(
        self, namespace: Sequence[str], *, query: str = "", limit: int | None = None
    ) -> list[StoreItem]:
        path = path_of(namespace)
        within = path, f"{path[:-1]}0" if path else "\U0010ffff"  # "0" comes after "/"
        rows = await self._run(lambda db: db.execute(self._search, within).fetchall())
        return search_results(rows, query, limit)

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        place = (path_of(namespace), checked_key(key))
        await self._run(lambda db: db.execute(self._delete, place).close())


# --- shared by the stores --------------------------------------------------------------------------

ItemRow: TypeAlias = tuple[str, str, str, float]
"""An item as stored: the path of its namespace, its key, the JSON text of its value, the time."""


def path_of(namespace: Sequence[str]) -> str:
    """Return a namespace as one text with a slash after each part; the namespaces below it start with it."""
    parts: Any = namespace
    if isinstance(parts, str) or not all(is_name(part) for part in parts):
        raise ConfigError(f"{namespace!r} is not a namespace; use a tuple of texts, such as ('users', 'ann')")
    return "".join([part.replace("%", "%25").replace("/", "%2F") + "/" for part in parts])


def checked_key(key: str) -> str:
    if not is_name(key):
        raise ConfigError(f"{key!r} is not the key of an item; use a text")
    return key


def is_name(name: object) -> bool:
    """Whether every store accepts it as a name: a text that is not empty, without NUL and lone surrogates."""
    return isinstance(name, str) and name == name.replace("\0", "").encode(errors="ignore").decode() != ""


def text_of(value: JsonValue) -> str:
    """Return the JSON text of a value. Raises `CodecError` if it is not JSON data."""
    text = dump_json(value)
    parse_json(text)  # raises if it could not be read again, such as for too deep nesting
    return text


def search_results(rows: Iterable[ItemRow], query: str, limit: int | None) -> list[StoreItem]:
    """Return the items of a search in rows, which are sorted by time, the newest first."""
    if limit is not None and limit < 0:
        raise ConfigError(f"search(limit={limit}): use a number of items, or None for all")
    words = set(_words(query))
    if words:
        counted = [(len(words & set(_words(f"{row[1]} {_plain_text(row[2])}"))), row) for row in rows]
        rows = [row for count, row in sorted(counted, key=lambda one: -one[0]) if count]
    return [_item(row) for row in list(rows)[:limit]]


def _item(row: ItemRow) -> StoreItem:
    parts = row[0].split("/")[:-1]
    namespace = tuple([part.replace("%2F", "/").replace("%25", "%") for part in parts])
    return StoreItem(namespace, row[1], parse_json(row[2]), row[3])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _plain_text(text: str) -> str:
    """Return the texts in a value without JSON syntax, whose escapes (such as \\n) contain letters."""
    return " ".join(_texts(parse_json(text)))


def _texts(value: Any) -> Iterable[str]:
    if is_object(value):
        for item in value.values():
            yield from _texts(item)
    elif is_array(value):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)
