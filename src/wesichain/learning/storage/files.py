"""The playbook on disk: a folder for each domain, with a log of deltas and an index that can be rebuilt.

    playbook.json             the version of the data model, and the embedder that it was created with
    <hash>/log.jsonl          the domain's head, its state at the last compaction, then a line for each delta
    <hash>/past-*.jsonl       earlier logs, for the journal and rollbacks
    <hash>/index.faiss        vectors; may be deleted at any time
    <hash>/lock               locked while a process writes

Folders are named by a hash, so that the name of a domain is never part of a path. A compaction starts a new
log and keeps the old one, so that the journal is complete and any state can be restored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from typing_extensions import override

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, CorruptRecordError, PlaybookError
from wesichain.learning.embedders import Embedder
from wesichain.learning.entities.bullets import DATA_MODEL
from wesichain.platform.files import sync_folder
from wesichain.platform.names import hashed_name

from .backend import Backend, Log, Repaired, append, exclusive, read_lines, write_file
from .index import VectorIndex, pack, unpack
from .journal import Delta, Gap, Head, Record, check_format, line_of, read_record
from .shelf import Shelf


class FileBackend(Backend):
    """Files on one machine, which many processes may share."""

    def __init__(self, path: Path, *, embedder: Embedder, sync: bool) -> None:
        self._root = path
        self._sync = sync
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PlaybookError(f"a playbook cannot be created at {path}: {error.strerror}") from error
        with exclusive(path / "lock"):
            self._check_description(embedder)

    @override
    def domains(self) -> Sequence[str]:
        found = [_domain_of(folder) for folder in self._root.iterdir() if folder.is_dir()]
        return sorted(name for name in found if name is not None)

    @override
    def log(self, domain: str) -> Log:
        folder = self._root / hashed_name(domain)
        if folder.is_symlink():
            raise PlaybookError(f"{folder} is a link; the folder of a domain must not be one")
        return FileLog(folder, domain=domain, sync=self._sync)

    @override
    def close(self) -> None:
        """Do nothing: no file stays open between calls."""

    def _check_description(self, embedder: Embedder) -> None:
        """Refuse data of another major version; write the description if there is none.

        The embedder is not checked: stored vectors name their embedder, and another one ignores them.
        """
        path = self._root / "playbook.json"
        try:
            found: Any = parse_json(path.read_bytes())
        except (FileNotFoundError, CodecError):
            found = None
        except OSError as error:
            raise PlaybookError(f"{self._root} holds no playbook: {error}") from error
        version = found.get("format") if is_object(found) else None
        if isinstance(version, str):
            try:
                check_format(version)
            except CodecError as error:
                raise PlaybookError(f"{path} is not the description of a playbook: {error}") from error
        if version != DATA_MODEL:
            wanted = {"format": DATA_MODEL, "embedder": embedder.name, "dimension": embedder.dimension}
            write_file(path, [dump_json(wanted).encode() + b"\n"], sync=self._sync)


class FileLog(Log):
    """One domain's folder."""

    def __init__(self, folder: Path, *, domain: str, sync: bool) -> None:
        self.folder = folder
        self.path = folder / "log.jsonl"
        self.where = str(self.path)
        self._domain = domain
        self._sync = sync
        self._offset = 0
        self._seen: tuple[int, int, int] | None = (
            None  # the state of the file when it was last read or written
        )
        self._vectors = folder / "index.faiss"

    @override
    @contextmanager
    def locked(self) -> Generator[None]:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with exclusive(self.folder / "lock"):
            yield

    @override
    def read(self) -> list[bytes]:
        self._seen = self._look()
        lines, self._offset = read_lines(self.path) if self._seen else ([], 0)
        return lines if self._offset else [line_of(Head(self._domain))]

    @override
    def read_new(self, after: int) -> list[bytes] | None:
        known, self._seen = self._seen, self._look()
        if known == self._seen:
            return []
        if known is None or self._seen is None or known[0] != self._seen[0] or self._seen[1] < self._offset:
            return None
        lines, self._offset = read_lines(self.path, self._offset)
        return lines

    @override
    def append(self, delta: Delta, line: bytes) -> None:
        """Write one delta; if that fails, nothing of it stays in the file."""
        is_first = self._offset == 0
        lines = [line_of(Head(self._domain)), line] if is_first else [line]
        self._offset = append(self.path, lines, sync=self._sync)
        if is_first and self._sync:
            sync_folder(self.folder)
        self._seen = self._look()

    @override
    def compact(self, seq: int, state: Sequence[bytes]) -> None:
        """Start a new log, and rename the old one."""
        past = self.folder / f"past-{seq:012}.jsonl"
        write_file(past, [self.path.read_bytes()[: self._offset]], sync=self._sync)
        self._put(self.path, state)

    @override
    def chains(self) -> list[tuple[str, list[bytes]]]:
        return [(str(path), read_lines(path)[0]) for path in self._files()]

    @override
    def repair(self) -> Repaired:
        """Move every unreadable line from the logs to `damaged.jsonl`."""
        kept, places = 0, list[str]()
        for path in self._files():
            lines, _ = read_lines(path)
            try:
                repaired, bad = _with_gaps(lines, domain=self._domain)
            except CodecError as error:
                raise CorruptRecordError(f"{path} cannot be repaired: {error}") from error
            if bad:
                append(self.folder / "damaged.jsonl", [lines[at] for at in bad], sync=self._sync)
            if repaired != lines:
                self._put(path, repaired)
            kept += len(lines) - len(bad)
            places += [f"{path.name}:{at + 1}" for at in bad]
        return Repaired(kept, tuple(places))

    @override
    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Rewrite every log; delete vectors, damaged lines and drafts, which may contain the erased texts."""
        for path in self._files():
            self._put(path, [edit(line) for line in read_lines(path)[0]])
        for stale in (self._vectors, self.folder / "damaged.jsonl", *self.folder.glob("*.draft")):
            stale.unlink(missing_ok=True)

    @override
    def load_vectors(self, index: VectorIndex) -> None:
        with suppress(OSError):
            index.supply(unpack(index.embedder, self._vectors.read_bytes()))

    @override
    def save_vectors(self, index: VectorIndex) -> None:
        write_file(self._vectors, pack(index.embedder, *index.save(everything=True)), sync=False)

    def _files(self) -> list[Path]:
        """The logs, oldest first; the current one is last."""
        current = [self.path] if self.path.exists() else []
        return [*sorted(self.folder.glob("past-*.jsonl")), *current]

    def _look(self) -> tuple[int, int, int] | None:
        """The inode, size and time of the file, which tell whether it has changed; None without a file."""
        try:
            stat = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _put(self, path: Path, lines: Sequence[bytes]) -> None:
        write_file(path, [line + b"\n" for line in lines], sync=self._sync)
        self._seen = None  # read the file again


def _domain_of(folder: Path) -> str | None:
    """The domain of a folder, from the head of its log; None if that cannot be read or does not match."""
    try:
        with (folder / "log.jsonl").open("rb") as file:
            head = read_record(file.readline().rstrip(b"\n"))
    except (OSError, CodecError):
        return None
    if isinstance(head, Head) and hashed_name(head.domain) == folder.name:
        return head.domain
    return None


def _with_gaps(lines: Sequence[bytes], *, domain: str) -> tuple[list[bytes], list[int]]:
    """The lines, with a gap for every missing or unreadable one, and the numbers of the unreadable ones."""
    shelf, repaired, bad = Shelf(domain), list[bytes](), list[int]()

    def keep(record: Record, line: bytes) -> None:
        shelf.follow(record)
        repaired.append(line)

    for at, line in enumerate(lines):
        gap = Gap(at + 1)
        record = _readable(line)
        if not repaired and not isinstance(record, Head):
            lost = Head(domain, hash="")
            keep(lost, line_of(lost))
        if record is None:
            bad.append(at)
            keep(gap, line_of(gap))
            continue
        try:
            keep(record, line)
        except CodecError:
            keep(gap, line_of(gap))
            keep(record, line)
    return repaired, bad


def _readable(line: bytes) -> Record | None:
    with suppress(CodecError):
        return read_record(line)
    return None
