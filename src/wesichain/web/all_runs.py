"""All runs: recordings and durable runs in one list, each found by its id and read in the same way.

A run that is in the database and has a recording too is one run: the database says how it stands.
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

if TYPE_CHECKING:  # a package of its own, which a viewer of recordings does not need
    from wesichain.durable import DurableRuns
    from wesichain.durable import RunSummary as DurableRun

AnyRun: TypeAlias = "RecordedRun | DurableRun"
Row: TypeAlias = dict[str, Any]
Heads: TypeAlias = "list[RecordedRun | DurableRun | None]"
Ids: TypeAlias = list[str]  # in the class, `list` is a method
Events: TypeAlias = list[Event]

# The state of durable runs that a status stands for; those of recordings alone stand for none.
_STATES = {"live": "running", "unfinished": None}
_OF_RECORDINGS = ("", "live", "unfinished", "completed", "failed", "interrupted")
_UNDER_WAY = ("pending", "running")


class AllRuns:
    """The runs of a folder of recordings and of a database, where there is one."""

    def __init__(self, store: RunStore, database: DurableRuns | None = None) -> None:
        self.store = store
        self.database = database

    # --- lists ---------------------------------------------------------------------------------------

    async def list(
        self, wanted: Filter | None = None, *, limit: int = 50, after: str | None = None
    ) -> tuple[list[AnyRun], str | None]:
        """A page of runs, the newest first, and the `after` of the page that follows, if one does.

        `after` names the last run of the page before: by its id, or a recording by the name of its file.
        """
        wanted = wanted or Filter()
        sources = await self._sources(wanted, limit, after)
        heads: Heads = [await anext(source, None) for source in sources]
        shown: list[AnyRun] = []
        while len(shown) < limit and any(heads):
            _, number, run = max((begun_at(run), at, run) for at, run in enumerate(heads) if run is not None)
            shown.append(run)
            heads[number] = await anext(sources[number], None)
        for source in sources:
            await source.aclose()
        return shown, _place(shown[-1]) if shown and any(heads) else None

    async def _sources(
        self, wanted: Filter, limit: int, after: str | None
    ) -> tuple[AsyncGenerator[AnyRun], AsyncGenerator[AnyRun]]:
        """The recordings and the durable runs behind a run, each in their order.

        Of two that began at the same time, the durable one comes first.
        """
        if after is None:
            return self._recorded(wanted, limit, ""), self._stored(wanted, limit, None)
        run = None if is_file_name(after) else await self.find(after)
        if run is None and not is_file_name(after):
            raise ConfigError(f"there is no run {after[:80]!r} for the list to continue after")
        if run is None or isinstance(run, RecordedRun):
            place = after if run is None else place_of(run)
            earlier = time_of(place)
            until = earlier if wanted.until is None else min(earlier, wanted.until)
            return self._recorded(wanted, limit, place), self._stored(
                replace(wanted, until=until), limit, None
            )
        return self._recorded(wanted, limit, place_at(run.created_at)), self._stored(
            wanted, limit, run.run_id
        )

    async def rows(self, wanted: Filter, *, limit: int, after: str | None) -> dict[str, Any]:
        """A page of the list as JSON; `total` counts the recordings, where they are all that there is."""
        runs, following = await self.list(wanted, limit=limit, after=after)
        names = await asyncio.to_thread(self.store.newest)
        rows = [
            self.store.plain(run, names) if isinstance(run, RecordedRun) else self._row(run) for run in runs
        ]
        total = len(self.store.names()) if self.database is None else None
        return {"runs": rows, "next": following, "total": total}

    async def _recorded(self, wanted: Filter, limit: int, place: str) -> AsyncGenerator[AnyRun]:
        """The recordings, the newest first, without those of durable runs."""
        following: str | None = place
        while following is not None and wanted.status in _OF_RECORDINGS:
            runs, following = await asyncio.to_thread(
                self.store.page_of, wanted, limit=limit, before=following or None
            )
            durable = await self._known([run.run_id for run in runs])
            for run in runs:
                if run.run_id not in durable:
                    yield run

    async def _stored(self, wanted: Filter, limit: int, after: str | None) -> AsyncGenerator[AnyRun]:
        """The durable runs, the newest first."""
        state = _STATES.get(wanted.status, wanted.status)
        marks: Mapping[str, Mark] = self.store.marks.all() if wanted.mark else {}
        filters: Any = asdict(wanted)
        del filters["status"], filters["mark"]  # the database knows states, and no marks
        while self.database is not None and state is not None:
            runs = await self.database.list(state or None, limit + 1, after=after, **filters)
            for run in runs[:limit]:
                if not wanted.mark or is_marked(marks.get(run.run_id), wanted.mark):
                    yield run
            if len(runs) <= limit:
                return
            after = runs[limit - 1].run_id

    async def _known(self, run_ids: Ids) -> set[str]:
        """Those of the ids that the database has."""
        if self.database is None or not run_ids:
            return set()
        return await self.database.known(run_ids)

    async def statistics(self) -> dict[str, Any]:
        """The figures of all runs; those of tools and models are of the recordings."""
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
        """The run of this id; of a recording the beginning of its id, or the name of its file, will do."""
        if self.database is not None and not is_file_name(id) and id in await self._known([id[:200]]):
            return await self.database.show(id)
        return await asyncio.to_thread(self.store.find, id)

    def plain(self, run: AnyRun) -> Row:
        """The row of a run, as JSON."""
        return self.store.plain(run) if isinstance(run, RecordedRun) else self._row(run)

    async def page(self, run: AnyRun, *, cursor: int = 0, limit: int = PAGE_EVENTS) -> bytes:
        """A run and a page of its events, as JSON. All events of a durable run are one page."""
        if isinstance(run, RecordedRun):
            return await asyncio.to_thread(self.store.page, run, cursor=cursor, limit=limit)
        run, found = await self._settled(run)
        events = (to_json(redact(event)).encode() for event in found)
        return self.store.page_json(self._row(run), run.model or "", events, next=None, cursor=0, problems=[])

    async def recording(self, run: AnyRun) -> Recording:
        """The events of a run so far."""
        if isinstance(run, RecordedRun):
            return await asyncio.to_thread(load, run.path)
        return Recording(run.run_id, tuple(await self._events(run)))

    async def _settled(self, run: DurableRun) -> tuple[DurableRun, Events]:
        """A run and its events so far, as they stand together.

        A worker that took the run up between the two readings would be shown as pending beside events of
        its own, for as long as its first tool takes.
        """
        assert self.database is not None
        while True:
            events = await self._events(run)
            now = await self.database.show(run.run_id) if run.status in _UNDER_WAY else run
            if now.status == run.status:
                return now, events
            run = now

    async def _events(self, run: DurableRun) -> Events:
        assert self.database is not None
        return [event async for event in self.database.events(run.run_id, wait=False)]

    def _row(self, run: DurableRun) -> Row:
        """A durable run as the list shows it, in the words of a recording and its own."""
        store = self.store
        mark = store.marks.of(run.run_id)
        is_over = run.status not in _UNDER_WAY
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
    """The name of a run's place in the list."""
    return place_of(run) if isinstance(run, RecordedRun) else run.run_id


def begun_at(run: AnyRun) -> float:
    """When a run began; a durable one, when it was queued."""
    return run.started_at if isinstance(run, RecordedRun) else run.created_at
