"""All runs: recordings and durable runs in one list, with one way to find and read them.

A durable run with a recording is listed once, with its state in the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from wesichain.core import Event, to_json
from wesichain.core.internal import replace
from wesichain.errors import ConfigError
from wesichain.trace import Recording, load, redact
from wesichain.trace import RunSummary as RecordedRun

from .marks import Mark
from .run_store import PAGE_EVENTS, Filter, RunStore, is_file_name, is_marked, place_at, place_of, time_of
from .stats import CURVE, statistics

if TYPE_CHECKING:  # an optional package, which recordings do not need
    from wesichain.durable import DurableRuns
    from wesichain.durable import RunSummary as DurableRun

AnyRun: TypeAlias = "RecordedRun | DurableRun"
Row: TypeAlias = dict[str, Any]
Heads: TypeAlias = "list[RecordedRun | DurableRun | None]"
Ids: TypeAlias = list[str]  # because `list` is a method of the class
Events: TypeAlias = list[Event]

# The states of durable runs for the statuses of recordings; None: there are no such durable runs.
_STATES = {"live": "running", "unfinished": None}
_RECORDED_STATUSES = ("", "live", "unfinished", "completed", "failed", "interrupted")
_ACTIVE = ("pending", "running")


class AllRuns:
    """The runs of a folder of recordings, and of a database if one is given."""

    def __init__(self, store: RunStore, database: DurableRuns | None = None) -> None:
        self.store = store
        self.database = database

    # --- lists ---------------------------------------------------------------------------------------

    async def list(
        self, wanted: Filter | None = None, *, limit: int = 50, after: str | None = None
    ) -> tuple[list[AnyRun], str | None]:
        """A page of runs, the newest first, and the `after` of the next page; None for the last page.

        `after` is the last run of the previous page: its id, or the file name of a recording.
        """
        wanted = wanted or Filter()
        sources = await self._sources(wanted, limit, after)
        heads: Heads = [await anext(source, None) for source in sources]
        shown: list[AnyRun] = []
        while len(shown) < limit and any(heads):
            _, number, run = max(
                (_started_at(run), at, run) for at, run in enumerate(heads) if run is not None
            )
            shown.append(run)
            heads[number] = await anext(sources[number], None)
        for source in sources:
            await source.aclose()
        return shown, _place(shown[-1]) if shown and any(heads) else None

    async def _sources(
        self, wanted: Filter, limit: int, after: str | None
    ) -> tuple[AsyncGenerator[AnyRun], AsyncGenerator[AnyRun]]:
        """The recordings and the durable runs after a run, each in order.

        Of two that started at the same time, the durable one comes first.
        """
        if after is None:
            return self._recorded(wanted, limit, ""), self._durable(wanted, limit, None)
        run = None if is_file_name(after) else await self.find(after)
        if run is None and not is_file_name(after):
            raise ConfigError(f"there is no run {after[:80]!r} for the list to continue after")
        if run is None or isinstance(run, RecordedRun):
            place = after if run is None else place_of(run)
            earlier = time_of(place)
            until = earlier if wanted.until is None else min(earlier, wanted.until)
            return self._recorded(wanted, limit, place), self._durable(
                replace(wanted, until=until), limit, None
            )
        return self._recorded(wanted, limit, place_at(run.created_at)), self._durable(
            wanted, limit, run.run_id
        )

    async def rows(self, wanted: Filter, *, limit: int, after: str | None) -> dict[str, Any]:
        """A page of the list as JSON. Without a database, `total` is the number of recordings."""
        runs, following = await self.list(wanted, limit=limit, after=after)
        names = await asyncio.to_thread(self.store.newest)
        rows = [
            self.store.plain(run, names) if isinstance(run, RecordedRun) else self._row(run) for run in runs
        ]
        total = len(self.store.names()) if self.database is None else None
        return {"runs": rows, "next": following, "total": total}

    async def _recorded(self, wanted: Filter, limit: int, place: str) -> AsyncGenerator[AnyRun]:
        """The recordings that are not of durable runs, the newest first."""
        following: str | None = place
        while following is not None and wanted.status in _RECORDED_STATUSES:
            runs, following = await asyncio.to_thread(
                self.store.page_of, wanted, limit=limit, before=following or None
            )
            durable = await self._known([run.run_id for run in runs])
            for run in runs:
                if run.run_id not in durable:
                    yield run

    async def _durable(self, wanted: Filter, limit: int, after: str | None) -> AsyncGenerator[AnyRun]:
        """The durable runs, the newest first."""
        state = _STATES.get(wanted.status, wanted.status)
        marks: Mapping[str, Mark] = self.store.marks.all() if wanted.mark else {}
        filters: Any = asdict(wanted)
        del filters["status"], filters["mark"]  # the database has states, and no marks
        while self.database is not None and state is not None:
            runs = await self.database.list(state or None, limit + 1, after=after, **filters)
            for run in runs[:limit]:
                if not wanted.mark or is_marked(marks.get(run.run_id), wanted.mark):
                    yield run
            if len(runs) <= limit:
                return
            after = runs[limit - 1].run_id

    async def _known(self, run_ids: Ids) -> set[str]:
        """The ids that are in the database."""
        if self.database is None or not run_ids:
            return set()
        return await self.database.known(run_ids)

    async def statistics(self) -> dict[str, Any]:
        """Statistics of all runs; those of tools and models are of the recordings only."""
        runs = await asyncio.to_thread(self.store.runs)
        durable = await self._known([run.run_id for run in runs])
        found = await asyncio.to_thread(statistics, self.store, runs, without=durable)
        if self.database is not None:
            totals = await self.database.totals()
            newest = await self.database.list(limit=CURVE)
            for total in totals:
                found["statuses"][total.state] = found["statuses"].get(total.state, 0) + total.runs
                if total.cost is not None:
                    found["cost"] = (found["cost"] or 0.0) + total.cost
            found["durable"] = sum(total.runs for total in totals)
            curve = [*found["curve"], *(self._row(run) for run in newest)]
            found["curve"] = sorted(curve, key=lambda row: float(row["started_at"]))[-CURVE:]
        return found

    # --- one run -------------------------------------------------------------------------------------

    async def find(self, id: str) -> AnyRun | None:
        """Find a run by its id; a recording also by the beginning of its id, or its file name."""
        if self.database is not None and not is_file_name(id) and id in await self._known([id[:200]]):
            return await self.database.show(id)
        return await asyncio.to_thread(self.store.find, id)

    def plain(self, run: AnyRun) -> Row:
        """A run as a row of the list, in JSON."""
        return self.store.plain(run) if isinstance(run, RecordedRun) else self._row(run)

    async def page(self, run: AnyRun, *, cursor: int = 0, limit: int = PAGE_EVENTS) -> bytes:
        """A run with a page of its events, as JSON. A durable run has one page."""
        if isinstance(run, RecordedRun):
            return await asyncio.to_thread(self.store.page, run, cursor=cursor, limit=limit)
        run, found = await self._consistent(run)
        events = (to_json(redact(event)).encode() for event in found)
        return self.store.page_json(self._row(run), run.model or "", events, next=None, cursor=0, problems=[])

    async def recording(self, run: AnyRun) -> Recording:
        """The recording of a run, or the events of a durable run so far."""
        if isinstance(run, RecordedRun):
            return await asyncio.to_thread(load, run.path)
        return Recording(run.run_id, tuple(await self._events(run)))

    async def _consistent(self, run: DurableRun) -> tuple[DurableRun, Events]:
        """A run and its events so far, in a consistent state.

        If a worker starts the run between the two queries, the run would be shown as pending with events,
        until its first tool has ended.
        """
        assert self.database is not None
        while True:
            events = await self._events(run)
            now = await self.database.show(run.run_id) if run.status in _ACTIVE else run
            if now.status == run.status:
                return now, events
            run = now

    async def _events(self, run: DurableRun) -> Events:
        assert self.database is not None
        return [event async for event in self.database.events(run.run_id, wait=False)]

    def _row(self, run: DurableRun) -> Row:
        """A durable run as a row of the list: the fields of a recording, and its own."""
        store = self.store
        mark = store.marks.of(run.run_id)
        is_over = run.status not in _ACTIVE
        shown: Row = redact(
            {
                "user_input": run.task,
                "result": run.result or run.error or "",
                "error": run.error,
                "agent": run.agent,
                "model": run.model or "",
            }
        )
        return {
            "id": run.run_id,
            "run_id": run.run_id,
            "stored": True,
            "started_at": run.created_at,
            "updated_at": run.updated_at,
            "status": str(run.status),
            "version": run.version,
            "served": run.served,
            "parent": run.parent,
            "key": run.key,
            "priority": run.priority,
            "steps": run.steps,
            "duration": run.updated_at - run.created_at if is_over else None,
            "tokens": run.tokens,
            "cost": run.cost,
            "tools": [*run.tools],
            "mark": None if mark is None else {"good": mark.good, "why": mark.why},
            "evaluation": None,
            **shown,
        }


def _place(run: AnyRun) -> str:
    """The position of a run in the list, for `after`."""
    return place_of(run) if isinstance(run, RecordedRun) else run.run_id


def _started_at(run: AnyRun) -> float:
    """The start of a run; of a durable run, the time when it was queued."""
    return run.started_at if isinstance(run, RecordedRun) else run.created_at
