"""Databases of durable runs, as the command line reads them."""

from __future__ import annotations

from wesichain.core import Event, RunCompleted, RunFailed
from wesichain.errors import ConfigError
from wesichain.trace import Recording
from wesichain.web import RunDatabase, plain_row

__all__ = ["open_database", "plain_row", "recorded"]


def open_database(url: str) -> RunDatabase:
    """The durable runs of a database, of whatever agents."""
    if not url.startswith(("sqlite:///", "postgresql://", "postgres://", "postgresql+psycopg://")):
        raise ConfigError(f"--database-url {url!r}: write sqlite:///FILE or postgresql://USER@HOST/NAME")
    from wesichain.durable import DurableRuns  # it takes a second to load: no other command pays for it

    return DurableRuns(url)


async def recorded(database: RunDatabase, run_id: str) -> Recording:
    """A durable run as far as it has come, by its id."""
    events: list[Event] = []
    async for event in database.events(run_id):
        events.append(event)
        if not event.scope and isinstance(event, RunCompleted | RunFailed):
            break
    if not events:
        raise ConfigError(f"the database has no run {run_id!r}")
    return Recording(run_id, tuple(events))
