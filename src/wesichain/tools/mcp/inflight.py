"""Calls in flight: requests to a server that stay open while a question of the server waits for an answer.

A question interrupts the tool call and its run. The request to the server stays open, and the same call, when
the run is resumed in this process, continues it with the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from wesichain.core.internal import Decision, Mutable, Question, dump_json, field
from wesichain.tools.context import ToolContext

_MAX_WAITING = 256  # requests with an open question; the oldest are cancelled first
CANNOT_ASK = "this client cannot ask its user"
_NO_CALL = object()
_current: ContextVar[object] = ContextVar("wesichain.mcp.call_in_flight", default=None)


class OpenQuestion(Mutable):
    """A question of a server, and the future of its answer. `number` counts equal questions of one call."""

    question: Question
    number: int
    answer: asyncio.Future[Decision]


class InFlightCall(Mutable):
    """One request to the server, for one call of a run (`ctx`)."""

    ctx: ToolContext | None
    _changed: asyncio.Event  # set when the call of a question may have become known
    questions: list[OpenQuestion] = field(default_factory=list[OpenQuestion])
    samples: int = 0  # requests for a model so far
    _task: asyncio.Task[Any] | None = None
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _event: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, request: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(request))
        self._task.add_done_callback(lambda _: self._notify())

    async def _run(self, request: Coroutine[Any, Any, Any]) -> Any:
        _current.set(self)  # transports that keep the context of a request assign its questions to this call
        return await request

    def _notify(self) -> None:
        self._event.set()
        self._changed.set()

    @property
    def is_done(self) -> bool:
        return self._task is None or self._task.done()

    def result(self) -> Any:
        """Return the server's result. Raises `CancelledError` if the request was cancelled."""
        assert self._task is not None
        return self._task.result()

    async def ask(self, question: Question) -> Decision:
        """Open a question and wait until the run has answered it."""
        question_key = dump_json([question.message, dict(question.schema)])
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        open_question = OpenQuestion(question, self._numbers[question_key], answer)
        self._numbers[question_key] += 1
        self.questions.append(open_question)
        self._notify()
        try:
            return await open_question.answer
        finally:
            self.close(open_question)

    def close(self, open_question: OpenQuestion) -> None:
        if open_question in self.questions:
            self.questions.remove(open_question)

    async def next_question(self) -> OpenQuestion | None:
        """Wait for a question of the request, or for its end (None)."""
        while not self.is_done:
            if self.questions:
                return self.questions[0]
            self._event.clear()
            await self._event.wait()
        return None

    async def cancel(self) -> None:
        """Cancel the request, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


class InFlightCalls:
    """The open requests to one server, by their calls."""

    def __init__(self) -> None:
        self._calls: dict[str, InFlightCall] = {}
        self._count = 0
        self._unowned = 0  # questions whose call is not known yet
        self._changed = asyncio.Event()

    def resume(self, ctx: ToolContext | None) -> InFlightCall | None:
        """Return the open request of a call, with the new context; None if there is none."""
        call = self._calls.get(_key(ctx))
        if call is not None and ctx is not None:
            call.ctx = ctx
            return call
        return None

    def add(self, ctx: ToolContext | None) -> InFlightCall:
        call = InFlightCall(ctx, self._changed)
        self._count += 1
        self._calls[_key(ctx) or f"#{self._count}"] = call
        return call

    def is_waiting(self, key: str) -> bool:
        """Whether the call with this idempotency key has an open question."""
        return any(
            call.ctx is not None and call.ctx.idempotency_key == key and bool(call.questions)
            for call in self._calls.values()
        )

    def remove(self, call: InFlightCall) -> None:
        self._calls = {key: each for key, each in self._calls.items() if each is not call}

    async def trim(self) -> None:
        """Cancel the oldest waiting requests if there are too many."""
        waiting = [call for call in self._calls.values() if call.questions]
        for call in waiting[: max(0, len(waiting) - _MAX_WAITING)]:
            self.remove(call)
            await call.cancel()

    async def close(self) -> None:
        calls, self._calls = [*self._calls.values()], {}
        for call in calls:
            await call.cancel()

    async def owner(self) -> InFlightCall | str:
        """Return the call that a new question belongs to, or the reason why it is not known.

        Over HTTP, and with protocol 2026-07-28, a question is part of the response to a request. With older
        protocols over standard output it can belong to any open request: it is known once all others have
        ended or have questions of their own. A question is never assigned if several runs have open requests.
        """
        current = _current.get()
        if current is _NO_CALL:
            return f"{CANNOT_ASK}: the question does not belong to a tool call"
        if isinstance(current, InFlightCall) and current in self._calls.values():
            return current
        self._unowned += 1
        try:
            while True:
                alive = [call for call in self._calls.values() if not call.is_done]
                candidates = [call for call in alive if not call.questions] or alive
                if not candidates:
                    return f"{CANNOT_ASK}: no call is in flight"
                if len({call.ctx.run_id if call.ctx is not None else "" for call in candidates}) > 1:
                    return f"{CANNOT_ASK}: several runs have calls in flight, and it could be for each"
                if len(candidates) <= self._unowned:
                    return candidates[0]
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._unowned -= 1


def outside_calls() -> None:
    """Mark the current context as outside of tool calls: questions in it do not belong to a run."""
    _current.set(_NO_CALL)


def _key(ctx: ToolContext | None) -> str:
    return f"{ctx.idempotency_key}#{ctx.attempt}" if ctx is not None and ctx.idempotency_key else ""
