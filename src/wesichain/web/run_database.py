"""Sources: what the viewer needs of a database of durable runs. `DurableRuns` is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from wesichain.core import Decision, Event, ToolCall


class StoredRun(Protocol):
    """A durable run as a list shows it."""

    @property
    def run_id(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def created_at(self) -> float: ...
    @property
    def updated_at(self) -> float: ...
    @property
    def error(self) -> str | None: ...
    @property
    def parent(self) -> str | None: ...


class StoredCall(Protocol):
    """A call of a durable run that waits for a person."""

    @property
    def run_id(self) -> str: ...
    @property
    def call(self) -> ToolCall: ...
    @property
    def token(self) -> str: ...


class RunDatabase(Protocol):
    """Durable runs, wherever they are kept: listed, followed, decided on, cancelled and resumed."""

    async def list(self, status: str | None = None, limit: int = 100) -> Sequence[StoredRun]:
        """The newest runs."""
        ...

    async def show(self, run_id: str) -> StoredRun:
        """One run, as it is listed."""
        ...

    async def pending(self) -> Sequence[StoredCall]:
        """The calls that wait for a person."""
        ...

    def events(self, run_id: str) -> AsyncIterator[Event]:
        """The events of a run so far, and then those that follow, until nobody works on it any more."""
        ...

    async def approve(self, run_id: str, token: str, decision: Decision) -> Any:
        """Decide on a waiting call."""
        ...

    async def cancel(self, run_id: str) -> Any:
        """Stop a run, wherever it goes on."""
        ...

    async def resume(self, run_id: str) -> Any:
        """Queue a run again that was cancelled, refused or given up, or interrupted and decided on."""
        ...


FIELDS = ("run_id", "agent", "status", "version", "created_at", "updated_at", "error", "parent")


def plain_row(row: StoredRun) -> dict[str, Any]:
    """A durable run as JSON."""
    return {name: getattr(row, name) for name in FIELDS}
