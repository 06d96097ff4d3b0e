"""Journals in memory, in a folder, in SQLite and in Postgres."""

from __future__ import annotations

import os
from typing import Any

from wesichain.core.internal import Clock

from .journals import Journals
from .sealing import Cipher


class MemoryJournals(Journals):
    """Runs in the memory of the process."""

    def __init__(
        self, *, cipher: Cipher | None = None, clock: Clock | None = None, lease: float = 5.0
    ) -> None:
        from wesichain.store import MemoryLogs

        super().__init__(MemoryLogs(clock=clock), cipher=cipher, clock=clock, lease=lease)


class FolderJournals(Journals):
    """Runs in a folder: one file of JSON lines a run. Processes of one machine may share it."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        from wesichain.store import FolderLogs

        super().__init__(FolderLogs(path), **options)


class SqliteJournals(Journals):
    """Runs in a SQLite file. Processes of one machine may share it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = True,
        cipher: Cipher | None = None,
        clock: Clock | None = None,
        lease: float = 5.0,
    ) -> None:
        from wesichain.store import SqliteLogs

        super().__init__(SqliteLogs(path, durable=durable), cipher=cipher, clock=clock, lease=lease)


class PostgresJournals(Journals):
    """Runs in the tables of a Postgres database, for any number of machines."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = 4,
        cipher: Cipher | None = None,
        clock: Clock | None = None,
        lease: float = 5.0,
    ) -> None:
        from wesichain.store import PostgresLogs

        super().__init__(PostgresLogs(url, connections=connections), cipher=cipher, clock=clock, lease=lease)
