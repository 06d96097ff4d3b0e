"""Exchange: the part of a run that answers one request of a frontend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from wesichain.core.internal import Decision

from .display import AskedCall, DisplayReader, Part, waiting_in
from .runs import Run, RunEnd, RunRegistry


class Exchange:
    """The events of a run that answer one request of a frontend, which has started or resumed the run."""

    def __init__(
        self, run: Run, after: int = 0, first: Sequence[Part] = (), reader: DisplayReader | None = None
    ) -> None:
        self.run = run
        self._first = first
        self._reader = reader or DisplayReader()
        self._after = after

    @classmethod
    async def answer(
        cls,
        registry: RunRegistry,
        owner: str,
        conversation: str,
        decide: Callable[[Sequence[AskedCall]], Mapping[str, Decision | None]],
        options: Mapping[str, Any],
        *,
        sent: Collection[str] = (),
    ) -> Exchange:
        """Resume the waiting run of a conversation; an HTTPException if there is none.

        `decide` returns the decisions on the waiting calls, with None for those that the client left out.
        `sent` are the ids of calls whose results the client has sent, so that it has them already.
        """
        run = await registry.waiting(owner, conversation)
        end = None if run is None else await run.now()
        if run is None or end is None or not end.pending:
            raise HTTPException(409, "no run of this conversation waits for a decision")
        found = decide(waiting_in(end))
        decisions = {token: decision for token, decision in found.items() if decision is not None}
        return await cls.resume(run, end, decisions, options, sent=sent)

    @classmethod
    async def resume(
        cls,
        run: Run,
        end: RunEnd,
        decisions: Mapping[str, Decision],
        options: Mapping[str, Any],
        *,
        is_streamed: bool = True,
        sent: Collection[str] = (),
    ) -> Exchange:
        """Resume a waiting run; an HTTPException if the decisions are refused."""
        await run.decide(decisions, options, is_streamed=is_streamed)
        reader = DisplayReader()
        return cls(run, end.last_seq, [*reader.resumed(waiting_in(end), decisions, sent)], reader)

    async def __aiter__(self) -> AsyncIterator[Sequence[Part]]:
        """Yield the parts in batches, as they arrive, until the run has ended or waits."""
        if self._first:
            yield self._first
        async for batch in self.run.follow(self._after):
            yield [part for event in batch for part in self._reader.of(event)]
