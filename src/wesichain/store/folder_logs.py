"""Logs of entries in a folder: a file of lines for each, which any number of processes may share.

format.json         what the folder holds, and its version
logs/NAME.jsonl     the log with the portable name NAME
parts/NAME/HASH     the bytes of its parts
shared.jsonl        claims and charges
leases/XX.json      leases on the logs whose names have the checksum XX
locks/XX            locks of these logs and leases; `shared` is that of the shared file
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from typing_extensions import override

from wesichain.core import to_json
from wesichain.core.internal import Clock, SystemClock, dump_json, is_object, parse_json, replace
from wesichain.errors import CodecError, StoreError
from wesichain.platform.files import lock, open_file, sync_folder, unlock
from wesichain.platform.names import portable_name

from .database_faults import store_error
from .entries import Entry, LimitReachedError, LogConflictError, LogInfo, Query, Summary, UniqueConflictError
from .groups import Groups, Results
from .lines import replace_file
from .log_files import LogFile, LogState, line_of
from .log_rules import (
    Append,
    CheckedLogs,
    LogLease,
    SharedState,
    check_lease,
    is_repetition,
    lease_after,
    select_logs,
)
from .shared_file import SharedFile
from .workers import SessionPool

T = TypeVar("T")
_FORMAT_FILE, _FORMAT, _VERSION = "format.json", "wesichain logs", 1
_DAY = 86_400.0
_TRIES = 5  # to read while others delete


class FolderLogs(CheckedLogs):
    """Stores logs as files of JSON lines in a folder, readable only by its owner.

    What was appended survives a crash of the process and a power failure. A last line that is not complete is
    an append that was not made. Without the folder there are no logs; the first append creates it.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        folder = _Folder(Path(path), self._clock)
        self._groups = Groups(_FolderSession(folder), _Folder.append, name="wesichain-folder")
        self._readers = SessionPool(partial(_FolderSession, folder), name="wesichain-folder-read", most=2)

    @override
    async def _append(self, append: Append) -> None:
        await self._groups.append(append)

    @override
    async def read(self, log: str, *, since: int = 1) -> Sequence[Entry]:
        return await self._readers.run(lambda folder: folder.read(log, since))

    @override
    async def list(self, query: Query) -> Sequence[LogInfo]:
        return await self._readers.run(lambda folder: folder.select(query))

    @override
    async def delete(self, log: str, *, seq: int | None = None, before: int | None = None) -> bool:
        return await self._groups.run(lambda folder: folder.delete(log, seq, before)) is not False

    @override
    async def delete_many(self, logs: Mapping[str, int]) -> int:
        given = dict(logs)

        def delete(folder: _Folder) -> int:
            return sum(folder.delete(log, seq, None) is True for log, seq in given.items())

        return await self._groups.run(delete)

    @override
    async def lease(self, log: str, holder: str, seconds: float) -> float:
        check_lease(log, holder, seconds)
        return await self._groups.run(lambda folder: folder.lease(log, holder, seconds))

    @override
    async def holder(self, unique: str) -> tuple[str, str] | None:
        return await self._groups.run(lambda folder: folder.shared().claims.get(unique))

    @override
    async def charged(self, limit: str, period: str | float) -> float:
        now = self._clock.time()
        return await self._groups.run(lambda folder: folder.shared().charged(limit, period, now))

    @override
    async def now(self) -> float:
        return self._clock.time()

    @override
    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.close()
        self._groups.close()


class _FolderSession:
    """Uses the folder in a thread; its faults are raised as those of the store."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder

    def do(self, job: Callable[[_Folder], T]) -> T:
        try:
            return job(self._folder)
        except OSError as error:
            raise self._folder.fault(error) from error

    def close(self) -> None:
        """Do nothing: files are open only while they are read or written."""


class _Folder:
    """The files of a folder. One thread changes them, any number may read them."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._states: dict[str, LogState] = {}
        self._is_checked = self._is_made = False
        self._shared_file: SharedFile | None = None
        self._process = 0

    @property
    def _shared(self) -> SharedFile:
        """The claims and charges, for the thread that changes them."""
        if self._shared_file is None or self._process != os.getpid():
            # A forked child forgets what its parent may have been about to change.
            path, process = self.path / "shared.jsonl", os.getpid()
            self._shared_file = SharedFile(path, lambda log, token: self._file(log).has_shared(token))
            self._process = process
        return self._shared_file

    # --- reading -------------------------------------------------------------------------------------

    def read(self, log: str, since: int) -> list[Entry]:
        if not self._is_there():
            return []
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # entries were deleted in between
                return self._with_parts(log, self._file(log).entries(since))
        raise StoreError(f"the log {log!r} in {self.path} is damaged: parts of its entries are missing")

    def select(self, query: Query) -> list[LogInfo]:
        if not self._is_there():
            return []
        paths = (self.path / "logs").glob("*.jsonl")
        states = [LogFile(str(path), self._states).state() for path in paths]
        return select_logs([state.info for state in states if state is not None and state.info.seq], query)

    def shared(self) -> SharedState:
        shared = self._shared
        if self._is_there():
            shared.read()
        return shared.state

    def _with_parts(self, log: str, found: Sequence[tuple[Entry, Sequence[str]]]) -> list[Entry]:
        data: dict[str, bytes] = {}
        for name in {name for _, names in found for name in names}:
            data[name] = (self._parts(log) / name).read_bytes()
        return [
            replace(entry, parts={name: data[name] for name in names}) if names else entry
            for entry, names in found
        ]

    def _is_there(self) -> bool:
        """Whether the folder has logs. Raises if it has something else, or logs of a newer version."""
        while not self._is_checked:
            try:
                found: Any = parse_json((self.path / _FORMAT_FILE).read_bytes())
            except CodecError:
                found = None
            except FileNotFoundError:
                names = {path.name for path in self.path.glob("*") if not path.match(f"{_FORMAT_FILE}.*")}
                if _FORMAT_FILE in names:  # another process has made it since
                    continue
                if not names:
                    return False
                found = None
            if not is_object(found) or found.get("format") != _FORMAT:
                raise StoreError(f"{self.path} is a folder with other files; use another folder for the logs")
            version = found.get("version")
            if version != _VERSION:
                raise StoreError(
                    f"{self.path} was written by a newer version (format {version}, this one reads format "
                    f"{_VERSION}); upgrade wesichain"
                )
            self._is_checked = True
        return True

    def _file(self, log: str) -> LogFile:
        return LogFile(f"{self.path}/logs/{portable_name(log)}.jsonl", self._states)

    def _parts(self, log: str) -> Path:
        return self.path / "parts" / portable_name(log)

    # --- changing ------------------------------------------------------------------------------------

    def _make(self) -> None:
        """Create the folder, and what is missing in it: another process may be about to do so."""
        if self._is_made:
            return
        if not self._is_there():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = dump_json({"format": _FORMAT, "version": _VERSION})
            replace_file(self.path / _FORMAT_FILE, [text.encode()], sync=True)
            sync_folder(self.path.absolute().parent)
        for name in ("logs", "parts", "leases", "locks"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        sync_folder(self.path)
        self._is_made = True

    def append(self, appends: Sequence[Append]) -> Results:
        """Write a group: the appends to one log that follow each other go to the disk together."""
        self._make()
        results: list[BaseException | None] = []
        for (log, is_shared), found in groupby(appends, key=lambda append: (append.log, append.is_shared)):
            group = [*found]
            try:
                for some in [[append] for append in group] if is_shared else [group]:
                    results += self._append_to(log, some, is_shared=is_shared)
            except OSError as error:
                results += [self.fault(error) for _ in group]
        return results

    def _append_to(self, log: str, appends: Sequence[Append], *, is_shared: bool) -> Results:
        with self._exclusive("shared") if is_shared else nullcontext(), self._exclusive(_shard(log)):
            if is_shared:
                self._shared.settle()
            return self._append_with_locks(self._file(log), log, appends)

    def _append_with_locks(self, file: LogFile, log: str, appends: Sequence[Append]) -> Results:
        state, now = file.state(), self._clock.time()
        info = LogInfo(log, 0, now, now, Summary()) if state is None else state.info
        summary_json = to_json(info.summary)
        lines: list[bytes] = []
        results: list[BaseException | None] = []
        for append in appends:
            if append.after != info.seq:
                results.append(append.conflict)
                continue
            try:
                token = self._shared.write(self._shared.state.change(append, now)) if append.is_shared else ""
            except (UniqueConflictError, LimitReachedError) as error:
                results.append(error)
                continue
            self._keep_parts(append)
            summary_json = append.summary_json or summary_json
            info = LogInfo(log, append.last.seq, now, info.begun_at, append.summary or info.summary)
            lines.append(line_of(append.entries, now, summary_json, token))
            results.append(None)
        if lines:
            file.append(state, info, lines)
            if appends[0].is_shared:
                self._shared.confirm()
        return [
            None if isinstance(result, LogConflictError) and _is_written(file, append) else result
            for append, result in zip(appends, results, strict=True)
        ]

    def _keep_parts(self, append: Append) -> None:
        if append.has_parts:
            folder = self._parts(append.log)
            folder.mkdir(mode=0o700, exist_ok=True)
            for name, data in {
                name: data for entry in append.entries for name, data in entry.parts.items()
            }.items():
                if not (folder / name).exists():
                    replace_file(folder / name, [data], sync=True)
            sync_folder(folder.parent)

    def delete(self, log: str, seq: int | None, before: int | None) -> bool | None:
        """Delete a log, or its beginning. Returns None for an unknown log, False if it has another `seq`."""
        if not self._is_there():
            return None
        self._make()
        file, parts = self._file(log), self._parts(log)
        with self._exclusive("shared"), self._exclusive(_shard(log)):
            state = file.state()
            if state is None or state.info.seq == 0:
                return None
            if seq not in (None, state.info.seq):
                return False
            self._shared.seal(log)
            if before is None:
                Path(file.path).unlink()
                sync_folder(self.path / "logs")
                shutil.rmtree(parts, ignore_errors=True)
            else:
                file.drop(before)
                needed = {name for _, names in file.entries(before) for name in names}
                for path in [path for path in parts.glob("*") if path.name not in needed]:
                    path.unlink()
        return True

    def lease(self, log: str, holder: str, seconds: float) -> float:
        self._make()
        path = self.path / "leases" / f"{_shard(log)}.json"
        with self._exclusive(_shard(log)):
            now, leases = self._clock.time(), _leases_in(path)
            found = leases.get(log)
            lease, wait = lease_after(found, holder, seconds, now)
            if lease != found:
                leases = {name: one for name, one in leases.items() if name != log and one.until > now - _DAY}
                if lease is not None:
                    leases[log] = lease
                # Not on the disk at once: after a power failure nobody has a lease.
                replace_file(path, [dump_json(leases).encode()], sync=False)
            return wait

    @contextmanager
    def _exclusive(self, name: str) -> Generator[None]:
        """Hold a lock, which the end of the process releases."""
        descriptor = open_file(f"{self.path}/locks/{name}", os.O_RDWR | os.O_CREAT)
        try:
            lock(descriptor)
            try:
                yield
            finally:
                unlock(descriptor)
        finally:
            os.close(descriptor)

    def fault(self, error: OSError) -> StoreError:
        why = error.strerror or type(error).__name__
        return store_error(f"the logs in {self.path} cannot be used: {why}", error)


def _shard(log: str) -> str:
    return f"{crc32(log.encode()) & 0xFF:02x}"


def _is_written(file: LogFile, append: Append) -> bool:
    last = append.last
    found = file.entries(last.seq)[:1]
    return any(
        is_repetition(last, entry.name, entry.body, entry.at) for entry, _ in found if entry.seq == last.seq
    )


def _leases_in(path: Path) -> dict[str, LogLease]:
    """The leases in a file. One that a power failure has damaged has none."""
    try:
        found = parse_json(path.read_bytes())
    except (FileNotFoundError, CodecError):
        return {}
    return {name: LogLease(*values) for name, values in found.items()}
