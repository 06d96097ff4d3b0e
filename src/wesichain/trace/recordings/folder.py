"""A folder of recordings: file names, lists of runs, search by id, and retention."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, MutableMapping
from functools import lru_cache
from os import PathLike
from pathlib import Path

from wesichain.core import Usage, from_json
from wesichain.core.internal import Clock, SystemClock, Value
from wesichain.errors import CodecError, ConfigError
from wesichain.platform.files import open_file, read_at
from wesichain.platform.names import begins_like, portable_name

from .format import RecordedEnd, Status, read_header
from .parts_folder import remove_parts

_SUFFIX = ".jsonl"
_STAMP = "20260101T000000.000000Z-"
_NAME = r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[a-z0-9_.~\[\]-]{1,80}\.jsonl"
_LAST_MOMENT = 253402300799.0  # of the year 9999
_PEEK = 4096


def file_name(run_id: str, at: float) -> str:
    """The file name of a run: it sorts by time, and is a plain name for any run id."""
    seconds, micros = divmod(round(min(at, _LAST_MOMENT) * 1_000_000) if at > 0 else 0, 1_000_000)
    return f"{_moment(seconds)}.{micros:06}Z-{_tail(run_id)}"


@lru_cache(maxsize=16)
def _moment(seconds: int) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))


def _tail(run_id: str) -> str:
    """The end of a file name, which is different for each run also where case is ignored."""
    return portable_name(run_id) + _SUFFIX


def _names(folder: str | PathLike[str]) -> list[str]:
    """The file names of the recordings in a folder, newest first; none if the folder is missing."""
    is_ours = re.compile(_NAME).fullmatch
    try:
        return sorted(filter(is_ours, os.listdir(folder)), reverse=True)  # noqa: PTH208  # ten thousand names
    except FileNotFoundError:
        return []


def latest_file(folder: str | PathLike[str], run_id: str) -> str | None:
    """The path of the newest readable recording with exactly this run id."""
    tail = _tail(run_id)
    paths = (os.path.join(folder, name) for name in _names(folder) if name[len(_STAMP) :] == tail)  # noqa: PTH118  # ten thousand
    return next((path for path in paths if _summary(path) is not None), None)


def new_files(folder: Path, run_id: str, at: float) -> Iterator[str]:
    """Paths for a new recording, to be tried in order until one is free."""
    yield f"{folder}{os.sep}{file_name(run_id, at)}"
    step = 0.000_001
    while True:  # the same id at the same time, with a clock that stands still
        yield f"{folder}{os.sep}{file_name(run_id, at + step)}"
        step *= 2


def find_run(folder: str | PathLike[str], run_id: str) -> Path:
    """Return the newest recording of a run, by its id or a prefix of it; `ConfigError` without one."""
    exact = latest_file(folder, run_id)
    if exact is not None:
        return Path(exact)
    alike = [*_named_like(folder, run_id)] if run_id else []
    ids = {path.name[len(_STAMP) :] for path in alike}
    if len(ids) == 1:
        return alike[0]
    if ids:
        raise ConfigError(f"{len(ids)} runs begin with {run_id!r}; write more of the id")
    raise ConfigError(
        f"no run {run_id!r} in {os.fspath(folder)}; `wesichain trace list` shows those there are"
    )


def _named_like(folder: str | PathLike[str], beginning: str) -> Iterator[Path]:
    """The recordings, newest first, of runs whose id begins with a text."""
    for name in _names(folder):
        if begins_like(name[len(_STAMP) :], beginning):
            summary = _summary(f"{os.fspath(folder)}/{name}")
            if summary is not None and summary.run_id.startswith(beginning):
                yield summary.path


class RunSummary(Value):
    """A row in a list of runs. `steps`, `usage` and `result` are set once the run has ended."""

    path: Path
    run_id: str
    started_at: float
    program: str  # the name of the agent, graph or function
    model: str
    user_input: str  # the first 160 characters
    status: Status
    size: int
    steps: int | None = None
    ended_at: float | None = None
    usage: Usage | None = None
    result: str = ""  # the beginning of the output, the error or the reason

    @property
    def duration(self) -> float | None:
        return None if self.ended_at is None else max(0.0, self.ended_at - self.started_at)

    def matches(self, words: Collection[str]) -> bool:
        text = f"{self.run_id}\n{self.program}\n{self.model}\n{self.status}\n{self.user_input}\n{self.result}".casefold()
        return all(word in text for word in words)


def list_runs(
    folder: str | PathLike[str],
    *,
    limit: int | None = None,
    search: str = "",
    before: str | None = None,
    known: MutableMapping[str, RunSummary] | None = None,
) -> tuple[RunSummary, ...]:
    """The runs of a folder, newest first. Only the first and last lines of each file are read.

    `search`: words that must all be in the id, the model, the status, or the beginning of the task or of
    the answer. `before`: a file name; list the runs before it (the next page). Unreadable files are left out.
    `known`: a cache of summaries by file name, for repeated calls: an entry is used while its file has the
    same size, and new summaries are added.
    """
    words = search.casefold().split()
    place = os.fspath(folder)
    found: list[RunSummary] = []
    for name in _names(folder):
        if limit is not None and len(found) >= limit:
            break
        if before is not None and name >= before:
            continue
        summary = _summary(f"{place}/{name}", None if known is None else known.get(name))
        if summary is None:
            continue
        if known is not None:
            known[name] = summary
        if summary.matches(words):
            found.append(summary)
    return tuple(found)


def _summary(path: str, known: RunSummary | None = None) -> RunSummary | None:
    """The summary of a file, read only if its size has changed; None if it cannot be read."""
    try:
        if known is not None and os.stat(path).st_size == known.size:  # noqa: PTH116  # ten thousand of them
            return known
        head, tail, size = _ends(path)
        header = read_header(head.partition(b"\n")[0], path)
    except (OSError, CodecError):
        return None
    ended = _ended(tail)
    return RunSummary(
        Path(path),
        header.run_id,
        header.started_at,
        header.program,
        header.model,
        header.user_input,
        ended.status if ended else "unfinished",
        size,
        ended.steps if ended else None,
        ended.ended_at if ended else None,
        ended.usage if ended else None,
        ended.result if ended else "",
    )


def _ends(path: str) -> tuple[bytes, bytes, int]:
    """The beginning and the end of a file, and its size."""
    descriptor = open_file(path, os.O_RDONLY, follow_links=True)
    try:
        size = os.fstat(descriptor).st_size
        head = os.read(descriptor, _PEEK)
        if b"\n" not in head:  # a very long run id
            head += os.read(descriptor, 65536)
        return head, read_at(descriptor, _PEEK, size - _PEEK) if size > _PEEK else head, size
    finally:
        os.close(descriptor)


def _ended(tail: bytes) -> RecordedEnd | None:
    """The last line of a file, if it is the end of the run. It is always short."""
    last = tail.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return from_json(RecordedEnd, last)
    except CodecError:
        return None


def prune(
    folder: str | PathLike[str],
    *,
    keep: int | None = None,
    days: float | None = None,
    spare: Collection[Path] = (),
    clock: Clock | None = None,
) -> tuple[Path, ...]:
    """Remove all but the newest `keep` recordings, and those not modified for `days`; return their paths."""
    files = [Path(folder, name) for name in _names(folder)]
    removed = set(files[keep:] if keep is not None else ())
    if days is not None:
        limit = (clock or SystemClock()).time() - days * 86400
        removed.update(path for path in files if _changed_at(path) < limit)
    removed.difference_update(spare)
    for path in removed:
        path.unlink(missing_ok=True)
        remove_parts(path)
    return tuple(sorted(removed))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # removed by another process
        return float("inf")
