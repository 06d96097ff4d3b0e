"""The service: the runs, callers and limits of an app, as all of its endpoints use them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from wesichain.core import JsonValue

from .bodies import read_object
from .callers import Callers
from .event_stream import EventStream
from .limits import Limits
from .runs import Run, RunDirectory


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that every endpoint of an app has."""

    runs: RunDirectory
    callers: Callers
    limits: Limits

    async def receive(self, request: Request) -> tuple[str, Mapping[str, JsonValue]]:
        """The owner of a request and the JSON object of its body; an HTTPException where one is missing."""
        owner = await self.callers.owner(request)
        return owner, await read_object(request, self.limits)

    def stream(
        self, run: Run, frames: AsyncIterator[bytes], headers: Mapping[str, str] | None = None
    ) -> Response:
        """The frames of a run as the answer, with the id of the run in a header."""
        return EventStream(
            run,
            frames,
            write_seconds=self.limits.write_seconds,
            headers={"x-run-id": run.run_id, **(headers or {})},
        )
