"""Held calls: requests that live on while a question of their server waits for a person.

A tool's call that meets a question leaves, and its run ends as interrupted; the request to the server stays,
and the same call, when the run goes on in this process, brings it the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from wesichain.core import Decision, Question, dump_json
from wesichain.tools.context import ToolContext

_MOST = 256  # requests that wait for a person; the oldest are given up first
CANNOT = "this client cannot ask its user"
_current: ContextVar[HeldCall | None] = ContextVar("wesichain.mcp.held", default=None)


class OpenQuestion:
    """A question of a server, and the answer that it will get."""

    def __init__(self, question: Question, number: int) -> None:
        self.question = question
        self.number = number  # of those that are the same, from 0
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()


class HeldCall:
    """One request under way, for one call of a run (`ctx`)."""

    def __init__(self, ctx: ToolContext | None, changed: asyncio.Event) -> None:
        self.ctx = ctx
        self._changed = changed  # told of what may say whose a question is
        self.task: asyncio.Task[Any] | None = None
        self.questions: list[OpenQuestion] = []
        self._numbers: Counter[str] = Counter()
        self._news = asyncio.Event()

    def start(self, request: Coroutine[Any, Any, Any]) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run(request))
        self.task.add_done_callback(lambda _: self._tell())

    async def _run(self, request: Coroutine[Any, Any, Any]) -> Any:
        _current.set(self)  # a transport that keeps the context of a request tells whose question it is
        return await request

    def _tell(self) -> None:
        self._news.set()
        self._changed.set()

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.done()

    def open(self, question: Question) -> OpenQuestion:
        same = dump_json([question.message, dict(question.schema)])
        asked = OpenQuestion(question, self._numbers[same])
        self._numbers[same] += 1
        self.questions.append(asked)
        self._tell()
        return asked

    def close(self, asked: OpenQuestion) -> None:
        if asked in self.questions:
            self.questions.remove(asked)

    async def news(self) -> OpenQuestion | None:
        """Wait for a question of the request, or for its end (None)."""
        while not self.is_over:
            if self.questions:
                return self.questions[0]
            self._news.clear()
            await self._news.wait()
        return None

    async def cancel(self) -> None:
        """Give the request up, and wait until that is done."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


class HeldCalls:
    """The requests of one server that are under way, by the calls that they are for."""

    def __init__(self) -> None:
        self._held: dict[str, HeldCall] = {}
        self._count = 0
        self._unsure = 0  # questions of which it is not known yet whose they are
        self._changed = asyncio.Event()

    def take(self, ctx: ToolContext | None) -> HeldCall | None:
        """The request of a call that waited, if it lives; it has the context of now."""
        held = self._held.get(_key(ctx)) if ctx is not None else None
        if held is not None:
            held.ctx = ctx
        return held

    def begin(self, ctx: ToolContext | None) -> HeldCall:
        held = HeldCall(ctx, self._changed)
        self._count += 1
        key = _key(ctx) if ctx is not None else ""
        self._held[key or f"#{self._count}"] = held
        return held

    def holds(self, key: str) -> bool:
        return any(
            held.ctx is not None and held.ctx.idempotency_key == key and bool(held.questions)
            for held in self._held.values()
        )

    def forget(self, held: HeldCall) -> None:
        self._held = {key: each for key, each in self._held.items() if each is not held}

    async def trim(self) -> None:
        """Give up the oldest of too many that wait."""
        waiting = [held for held in self._held.values() if held.questions]
        for held in waiting[: max(0, len(waiting) - _MOST)]:
            self.forget(held)
            await held.cancel()

    async def close(self) -> None:
        held, self._held = [*self._held.values()], {}
        for each in held:
            await each.cancel()

    async def asker(self) -> HeldCall | str:
        """The call that a question which has just come belongs to, or why that cannot be said.

        Over HTTP a question comes with the answer to its call. Over standard output it may be of any call
        under way: it is known once all the others have ended, or ask, too. Two runs are never mixed up.
        """
        current = _current.get()
        if current is not None and current in self._held.values():
            return current
        self._unsure += 1
        try:
            while True:
                alive = [held for held in self._held.values() if not held.is_over]
                candidates = [held for held in alive if not held.questions] or alive
                if not candidates:
                    return f"{CANNOT}: no call is under way"
                if len({held.ctx.run_id if held.ctx is not None else "" for held in candidates}) > 1:
                    return f"{CANNOT}: several runs have calls under way, and whose this is cannot be told"
                if len(candidates) <= self._unsure:
                    return candidates[0]
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._unsure -= 1


def _key(ctx: ToolContext | None) -> str:
    return f"{ctx.idempotency_key}#{ctx.attempt}" if ctx is not None and ctx.idempotency_key else ""
