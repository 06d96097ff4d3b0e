"""The folder of recordings in the viewer: lists, pages of events, and following active runs."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import RLock
from time import time
from typing import Any, ClassVar, get_args

from wesichain.core import Event
from wesichain.core.internal import Prices, Value, dump_json, to_plain
from wesichain.errors import ConfigError
from wesichain.policy import find_cost, find_price
from wesichain.trace import RunSummary, find_run, list_runs

from .digests import Digests, parsed
from .marks import Mark, Marks, Scores
from .price_rows import price_rows

PAGE_EVENTS = 1_000
_PAGE_BYTES = 8 * 1024 * 1024
_CHUNK = 2_000  # summaries that are filtered at a time
_POLL = 0.2  # seconds
_PING = 15.0
_SUFFIX = ".jsonl"
_STAMP = r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE = re.compile(_STAMP + r"[a-z0-9_.~\[\]-]{1,80}")
_KINDS = frozenset(event.kind for event in get_args(Event))

_FRESH = 120.0  # seconds after the last write for which a run without an end is called live


class Filter(Value):
    """A filter of runs; a run has to match all fields.

    A `status` is one of `STATUSES`; `live` also stands for durable runs that are running.
    """

    STATUSES: ClassVar[tuple[str, ...]] = (
        *("pending", "running", "completed", "failed", "interrupted", "cancelled"),
        *("live", "unfinished"),
    )

    search: str = ""
    status: str = ""
    tool: str = ""
    mark: str = ""  # good, bad, any or none
    least_cost: float | None = None
    most_cost: float | None = None
    since: float | None = None
    until: float | None = None
    least_seconds: float | None = None

    @property
    def needs_full_recordings(self) -> bool:
        return bool(self.tool) or self.least_cost is not None or self.most_cost is not None

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def is_more_than_words(self) -> bool:
        return self != Filter(self.search)


class Page(Value):
    """A page of the events of a file: their numbers, and their JSON."""

    events: list[tuple[int, bytes]]
    cursor: int  # the offset of the next page
    is_last: bool  # the end of the file, which may grow
    is_ended: bool  # the last line is the end of the run
    problems: list[str]


class RunStore:
    """A folder of recordings. Ids of requests are validated before they are used in a path.

    The summary of a file is cached until the file grows or is removed.
    """

    def __init__(self, folder: Path, *, prices: Prices | None = None) -> None:
        self.folder = folder
        self.prices = prices or {}
        self._known: dict[str, RunSummary] = {}  # by name of file
        self.digests = Digests(self.prices)
        self.marks = Marks(folder / "labels.jsonl")
        self.scores = Scores(folder / "scores.jsonl")
        self._is_ahead = False
        self._reading = RLock()  # only one thread reads all files at a time

    def runs(
        self, limit: int | None = None, *, search: str = "", before: str | None = None
    ) -> tuple[RunSummary, ...]:
        return list_runs(self.folder, limit=limit, search=search, before=before, known=self._known)

    def read_ahead(self) -> None:
        """Fill the cache of summaries once, for searches, and remove the runs that are gone."""
        with self._reading:
            if not self._is_ahead:
                find_price("")  # loads the table of prices
                self.runs()
                self._is_ahead = True
            gone = set(self._known) - set(self.names())
            for name in gone:
                self._known.pop(name, None)
            self.digests.forget(gone)

    def read_all_digests(self) -> None:
        """Compute the digests of all recordings that are new or have grown."""
        self.read_ahead()
        for run in self.runs():
            self.digests.of(run.path, run.size)

    def status(self, run: RunSummary) -> str:
        """The status of a run; `live` if it has no end and its file was written recently."""
        if run.status != "unfinished":
            return run.status
        try:
            touched = run.path.stat().st_mtime
        except OSError:
            return run.status
        return "live" if time() - touched < _FRESH else run.status

    def find(self, id: str) -> RunSummary | None:
        """Find a run by its id, the beginning of its id, or its file name."""
        if is_file_name(id):
            name = f"{id}{_SUFFIX}"
        elif _RUN_ID.fullmatch(id):
            try:
                name = find_run(self.folder, id).name
            except ConfigError:
                return None
        else:
            return None
        # List from this file: `before` is the first possible name after it.
        found = self.runs(1, before=f"{name}\0")
        return found[0] if found and found[0].path.name == name else None

    def page_of(
        self, wanted: Filter, *, limit: int = 50, before: str | None = None
    ) -> tuple[list[RunSummary], str | None]:
        """A page of summaries, newest first, and the `before` of the next page; None for the last page."""
        if not wanted.is_empty:
            self.read_ahead()
        found: list[RunSummary] = []
        place = f"{before}{_SUFFIX}" if before else None
        size = _CHUNK if wanted.is_more_than_words else limit + 1
        marks: Mapping[str, Mark] = self.marks.all() if wanted.mark else {}
        while len(found) <= limit:
            some = self.runs(size, search=wanted.search, before=place)
            chosen = (run for run in some if self._is_wanted(run, wanted, marks))
            found += islice(chosen, limit + 1 - len(found))
            if len(some) < size:
                break
            place = some[-1].path.name
        return found[:limit], place_of(found[limit - 1]) if len(found) > limit else None

    def _is_wanted(self, run: RunSummary, wanted: Filter, marks: Mapping[str, Mark]) -> bool:
        """Whether a run that contains the words matches the other fields."""
        return (
            (not wanted.status or self.status(run) == wanted.status)
            and (wanted.since is None or run.started_at >= wanted.since)
            and (wanted.until is None or run.started_at < wanted.until)
            and (wanted.least_seconds is None or (run.duration or 0.0) >= wanted.least_seconds)
            and (not wanted.mark or is_marked(marks.get(run.run_id), wanted.mark))
            and (not wanted.needs_full_recordings or self._is_digest_wanted(run, wanted))
        )

    def _is_digest_wanted(self, run: RunSummary, wanted: Filter) -> bool:
        """Whether a run matches the fields that need its whole recording."""
        digest = self.digests.of(run.path, run.size)
        cost = None if digest is None else digest.cost
        return (
            digest is not None
            and (not wanted.tool or wanted.tool in digest.tools)
            and (wanted.least_cost is None or (cost is not None and cost >= wanted.least_cost))
            and (wanted.most_cost is None or (cost is not None and cost <= wanted.most_cost))
        )

    def plain(self, run: RunSummary, newest: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A summary as JSON. `id` finds it: its run id, or its file name if the run id is not a plain word or
        a newer recording has the same."""
        newest = self.newest() if newest is None else newest
        stem = place_of(run)
        is_plain = bool(_RUN_ID.fullmatch(run.run_id)) and newest.get(run.run_id) == run.path.name
        digest = self.digests.known(run.path)
        cost = None if digest is None else digest.cost
        if digest is None and run.usage is not None:  # an estimate: the tokens of all requests as one request
            cost = find_cost(run.usage, run.model, self.prices)
        mark = self.marks.of(run.run_id)
        result = self.scores.of(run.run_id)
        return {
            "id": run.run_id if is_plain else stem,
            "run_id": run.run_id,
            "stored": False,
            "started_at": run.started_at,
            "agent": run.agent,
            "model": run.model,
            "user_input": run.user_input,
            "status": self.status(run),
            "size": run.size,
            "steps": run.steps,
            "duration": run.duration,
            "tokens": None if run.usage is None else run.usage.total_tokens,
            "cost": cost,
            "result": run.result,
            "mark": None if mark is None else {"good": mark.good, "why": mark.why},
            "evaluation": result
            and {"case": result.case, "passed": result.passed, "scores": to_plain(result.scores)},
        }

    def newest(self) -> dict[str, str]:
        """The newest file name for each run id, or its hash."""
        return {name.partition("Z-")[2].removesuffix(_SUFFIX): name for name in sorted(self.names())}

    def prices_of(self, model: str) -> Prices:
        """The given prices, and the published price of a model."""
        published = find_price(model, self.prices)
        return {**self.prices, **({} if published is None else {model: published})}

    def names(self) -> Sequence[str]:
        try:
            return [name for name in os.listdir(self.folder) if _FILE.match(name)]  # noqa: PTH208  # quick
        except FileNotFoundError:
            return []

    def page(self, run: RunSummary, *, cursor: int = 0, limit: int = PAGE_EVENTS) -> bytes:
        """A run with a page of its events, as JSON; the events as they are in the file."""
        page = read_page(run.path, cursor=cursor, limit=limit)
        return self.page_json(
            self.plain(run),
            run.model,
            (line for _, line in page.events),
            next=None if page.is_last else page.cursor,
            cursor=page.cursor,
            problems=page.problems,
        )

    def page_json(self, row: Mapping[str, Any], model: str, events: Iterable[bytes], **place: Any) -> bytes:
        """A page of a run: its row, the prices of its model, where the page stands, and events as JSON."""
        head = {"run": row, "prices": price_rows(self.prices_of(model)), **place}
        return dump_json(head).encode()[:-1] + b',"events":[' + b",".join(events) + b"]}"


def place_of(run: RunSummary) -> str:
    """The place of a recording in the list: the name of its file."""
    return run.path.name.removesuffix(_SUFFIX)


def place_at(at: float) -> str:
    """The place of the first recording that does not begin after this time."""
    return f"{datetime.fromtimestamp(at + 0.000_001, UTC):%Y%m%dT%H%M%S.%fZ-}"


def time_of(place: str) -> float:
    """When the recording of a place began, as the name of its file says."""
    return datetime.strptime(place.partition("Z-")[0], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()


def is_file_name(id: str) -> bool:
    """Whether a text is a file name of a recording. No run id has this form."""
    return _FILE.fullmatch(id) is not None


def is_marked(mark: Mark | None, wanted: str) -> bool:
    if wanted == "none" or mark is None:
        return (mark is None) == (wanted == "none")
    return wanted == "any" or mark.good == (wanted == "good")


def read_page(path: Path, *, cursor: int = 0, limit: int = PAGE_EVENTS) -> Page:
    """Read a page of events from an offset: whole lines, up to a number of events and bytes."""
    events: list[tuple[int, bytes]] = []
    problems: list[str] = []
    is_ended = False
    offset = cursor
    with path.open("rb") as file:
        file.seek(cursor)
        while len(events) < limit and offset - cursor < _PAGE_BYTES:
            line = file.readline()
            if not line.endswith(b"\n"):  # the end of the file, or an incomplete line
                return Page(events, offset, is_last=True, is_ended=is_ended, problems=problems)
            offset += len(line)
            plain = parsed(line)
            kind = plain.get("kind")
            if kind in _KINDS and isinstance(plain.get("seq"), int):
                events.append((plain["seq"], line.strip()))
                is_ended = False
            elif kind == "recording_dropped":
                problems.append(f"{plain.get('events')} events were not recorded: {plain.get('reason')}")
            elif kind == "recording_ended":
                is_ended = True
            elif kind != "recording" and line.strip():
                problems.append(f"{len(line)} bytes before byte {offset} cannot be read")
    return Page(events, offset, is_last=False, is_ended=False, problems=problems)


async def follow(path: Path, *, after: int = -1) -> AsyncIterator[bytes]:
    """Follow a recording: its events after number `after` as server-sent events, until the run ends."""
    cursor = 0
    silent = 0.0
    while True:
        try:
            page = await asyncio.to_thread(read_page, path, cursor=cursor)
        except FileNotFoundError:
            yield b"event: gone\ndata: {}\n\n"
            return
        cursor = page.cursor
        fresh = [(seq, line) for seq, line in page.events if seq > after]
        if fresh:
            silent = 0.0
            yield b"".join(b"id: %d\ndata: %s\n\n" % item for item in fresh)
        if page.is_ended:
            yield b"event: end\ndata: {}\n\n"
            return
        if page.is_last:
            await asyncio.sleep(_POLL)
            silent += _POLL
        if silent >= _PING:
            silent = 0.0
            yield b": still here\n\n"
