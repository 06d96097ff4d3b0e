"""The playbook in Postgres, for writers on many machines, with a row for each delta.

A transaction locks the row of its domain; writers of other domains do not wait. Each process keeps the state
and the index in memory, as with files, and reads new rows before each operation. The vectors are stored in a
pgvector column, so that a new process does not have to embed the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import LiteralString

import numpy as np
from typing_extensions import override

from wesichain.errors import CodecError, PlaybookError
from wesichain.learning.embedders import Embedder, Vectors
from wesichain.learning.entities.bullets import DATA_MODEL
from wesichain.store import TableSchema
from wesichain.store.postgres import PostgresSession

from .backend import Backend, Log, Repaired
from .index import VectorIndex, text_key
from .journal import Delta, Head, check_format, line_of, read_record

_TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS wesichain_playbook (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format text NOT NULL, embedder text NOT NULL, dimension int NOT NULL);
CREATE TABLE IF NOT EXISTS wesichain_playbook_domain (
    domain text PRIMARY KEY, base bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS wesichain_playbook_delta (
    domain text, seq bigint, line text NOT NULL, PRIMARY KEY (domain, seq));
CREATE TABLE IF NOT EXISTS wesichain_playbook_state (
    domain text, place int, line text NOT NULL, PRIMARY KEY (domain, place));
CREATE TABLE IF NOT EXISTS wesichain_playbook_vector (
    embedder text, key bytea, embedding vector NOT NULL, PRIMARY KEY (embedder, key));
"""
_SCHEMA = TableSchema("the playbook", 0x57535042, (_TABLES,), PlaybookError, "wesichain_playbook_schema")
_REWRITE: tuple[tuple[LiteralString, LiteralString], ...] = (
    (
        "SELECT seq, line FROM wesichain_playbook_delta WHERE domain = %s ORDER BY seq",
        "UPDATE wesichain_playbook_delta SET line = %s WHERE domain = %s AND seq = %s",
    ),
    (
        "SELECT place, line FROM wesichain_playbook_state WHERE domain = %s ORDER BY place",
        "UPDATE wesichain_playbook_state SET line = %s WHERE domain = %s AND place = %s",
    ),
)


class PostgresBackend(Backend):
    """One connection, shared by the threads of this process, which reconnects after a failure."""

    def __init__(self, url: str, *, embedder: Embedder) -> None:
        self._session = PostgresSession(url, _SCHEMA)
        self.use = self._session.use
        try:
            self._prepare(embedder)
        except BaseException:
            self.close()
            raise

    def _prepare(self, embedder: Embedder) -> None:
        """Refuse data of another major version of the data model."""
        with self.use() as database, database.transaction():
            row = database.execute("SELECT format FROM wesichain_playbook").fetchone()
            if row is not None:
                check_format(row[0])
            database.execute(
                "INSERT INTO wesichain_playbook (format, embedder, dimension) VALUES (%s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                (DATA_MODEL, embedder.name, embedder.dimension),
            )

    @override
    def domains(self) -> Sequence[str]:
        with self.use() as database:
            rows = database.execute("SELECT domain FROM wesichain_playbook_domain ORDER BY domain").fetchall()
        return [row[0] for row in rows]

    @override
    def log(self, domain: str) -> Log:
        return PostgresLog(self, domain=domain)

    @override
    def close(self) -> None:
        self._session.close()


class PostgresLog(Log):
    """The rows of one domain."""

    def __init__(self, backend: PostgresBackend, *, domain: str) -> None:
        self._backend = backend
        self._domain = domain
        self.where = f"the journal of {domain!r}"

    @override
    @contextmanager
    def locked(self) -> Generator[None]:
        with self._backend.use() as database, database.transaction():
            database.execute(
                "INSERT INTO wesichain_playbook_domain (domain) VALUES (%s) ON CONFLICT DO NOTHING",
                (self._domain,),
            )
            database.execute(
                "SELECT FROM wesichain_playbook_domain WHERE domain = %s FOR UPDATE", (self._domain,)
            )
            yield

    @override
    def read(self) -> list[bytes]:
        state = self._state()
        return [*state, *self._deltas(_number_of(state[0]))]

    @override
    def read_new(self, after: int) -> list[bytes] | None:
        return self._deltas(after) if after else None

    @override
    def append(self, delta: Delta, line: bytes) -> None:
        with self._backend.use() as database:
            database.execute(
                "INSERT INTO wesichain_playbook_delta (domain, seq, line) VALUES (%s, %s, %s)",
                (self._domain, delta.seq, line.decode()),
            )

    @override
    def compact(self, seq: int, state: Sequence[bytes]) -> None:
        lines = [(self._domain, place, line.decode()) for place, line in enumerate(state)]
        with self._backend.use() as database, database.cursor() as cursor:
            cursor.execute("DELETE FROM wesichain_playbook_state WHERE domain = %s", (self._domain,))
            cursor.executemany("INSERT INTO wesichain_playbook_state VALUES (%s, %s, %s)", lines)

    @override
    def chains(self) -> Sequence[tuple[str, Sequence[bytes]]]:
        """Return the whole history; if an earlier version truncated it, the state and the deltas after it."""
        deltas = self._deltas(0)
        is_cut = not deltas or _number_of(deltas[0]) > 1
        return [(self.where, self.read() if is_cut else [line_of(Head(self._domain)), *deltas])]

    @override
    def repair(self) -> Repaired:
        """Change nothing: restore a backup of the database to repair it."""
        return Repaired(len(self._deltas(0)), ())

    @override
    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Rewrite the deltas first: the state begins with the hash of one of them."""
        with self._backend.use() as database, database.cursor() as cursor:
            for read, write in _REWRITE:
                rows = cursor.execute(read, (self._domain,)).fetchall()
                cursor.executemany(
                    write, [(edit(line.encode()).decode(), self._domain, place) for place, line in rows]
                )
            cursor.execute(
                "DELETE FROM wesichain_playbook_vector WHERE key = ANY(%s)",
                ([text_key(intent) for intent in intents],),
            )

    @override
    def load_vectors(self, index: VectorIndex) -> None:
        with self._backend.use() as database:
            rows = database.execute(
                "SELECT key, embedding FROM wesichain_playbook_vector WHERE embedder = %s AND key = ANY(%s)",
                (index.embedder.name, index.waiting()),
                binary=True,
            ).fetchall()
        index.supply({bytes(key): _from_binary(vector) for key, vector in rows})

    @override
    def save_vectors(self, index: VectorIndex) -> None:
        fresh = zip(*index.save(everything=False), strict=True)
        name = index.embedder.name
        rows = [(name, key, f"[{','.join(map(str, vector.tolist()))}]") for key, vector in fresh]
        with self._backend.use() as database, database.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO wesichain_playbook_vector VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows
            )

    def _deltas(self, after: int) -> list[bytes]:
        with self._backend.use() as database:
            rows = database.execute(
                "SELECT line FROM wesichain_playbook_delta WHERE domain = %s AND seq > %s ORDER BY seq",
                (self._domain, after),
            ).fetchall()
        return [row[0].encode() for row in rows]

    def _state(self) -> list[bytes]:
        """The state at the last compaction; without one, the head of an empty log."""
        with self._backend.use() as database:
            rows = database.execute(
                "SELECT line FROM wesichain_playbook_state WHERE domain = %s ORDER BY place", (self._domain,)
            ).fetchall()
        return [row[0].encode() for row in rows] or [line_of(Head(self._domain))]


def _number_of(line: bytes) -> int:
    """The number of a delta, or of the delta before a head; 0 if the line cannot be read."""
    with suppress(CodecError):
        record = read_record(line)
        return record.seq if isinstance(record, Head | Delta) else 0
    return 0


def _from_binary(data: bytes) -> Vectors:
    """Read pgvector's binary format: two 16-bit numbers, the first the dimension, then big-endian floats."""
    return np.frombuffer(data, dtype=">f4", offset=4).astype(np.float32)
