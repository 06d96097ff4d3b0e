"""Rate limiter: calls a model no more often than its provider allows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext

from wesichain.core import LlmRequest, LlmResponse, ModelSettings, ToolCallingLlm, Usage
from wesichain.core.internal import (
    Clock,
    Mutable,
    StreamItem,
    SystemClock,
    check_settings,
    other_models,
    traits_of,
)
from wesichain.errors import ConfigError

from .loops import PerLoop
from .relay import relay, response_of

_MINUTE = 60.0
_CHARS_PER_TOKEN = 4


class _Turn(Mutable):
    """When a request began, and its tokens: estimated until the reply gives their number."""

    at: float
    tokens: int

    def settle(self, usage: Usage) -> None:
        self.tokens = usage.total_tokens or self.tokens


class RateLimiter:
    """A `StreamingLlm` that limits the calls of `llm` per minute, and the calls at the same time.

    In any sixty seconds, at most `requests_per_minute` requests begin and `tokens_per_minute` tokens are
    used; a request larger than that limit waits until it is alone in its minute. Waiting requests are served
    in order of arrival. A limiter is for one model: share the object to share the limits.
    """

    def __init__(
        self,
        llm: ToolCallingLlm,
        *,
        requests_per_minute: int,
        tokens_per_minute: int | None = None,
        concurrency: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        for limit in (requests_per_minute, tokens_per_minute, concurrency):
            if limit is not None and limit < 1:
                raise ConfigError(f"a rate limit of {limit} allows no requests; use 1 or more")
        self.llm = llm
        self.model = str(getattr(llm, "model", type(llm).__name__))
        self.traits = traits_of(llm)
        self.other_models = other_models(llm)
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._concurrency = concurrency
        self._gates = PerLoop(self._gate)
        self._clock = clock or SystemClock()
        self._turns: deque[_Turn] = deque()  # of the last minute

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that `llm` does not take."""
        check_settings(self.llm, settings)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await response_of(self._in_turn(request, stream=False))

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        return self._in_turn(request, stream=True)

    async def _in_turn(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[StreamItem, None]:
        async with self._turn(request) as turn, aclosing(relay(self.llm, request, stream=stream)) as items:
            async for item in items:
                if isinstance(item, LlmResponse):
                    turn.settle(item.usage)
                yield item

    @asynccontextmanager
    async def _turn(self, request: LlmRequest) -> AsyncGenerator[_Turn, None]:
        guess = sum(len(message.text) for message in request.messages) // _CHARS_PER_TOKEN
        gate, queue = self._gates.get()
        async with gate:
            async with queue:
                while (wait := self._wait(guess)) > 0:
                    await self._clock.sleep(wait)
                turn = _Turn(self._clock.monotonic(), guess)
                self._turns.append(turn)
            yield turn

    def _wait(self, tokens: int) -> float:
        """Seconds until a request of `tokens` can begin within the limits."""
        now = at = self._clock.monotonic()
        while self._turns and self._turns[0].at + _MINUTE <= now:
            self._turns.popleft()
        count, used = len(self._turns), sum(turn.tokens for turn in self._turns)
        for turn in self._turns:
            if count < self._requests and (self._tokens is None or used + tokens <= self._tokens):
                break
            count, used, at = count - 1, used - turn.tokens, turn.at + _MINUTE
        return at - now

    def _gate(self) -> tuple[AbstractAsyncContextManager[None], asyncio.Lock]:
        """The limit on concurrent calls, and the queue of waiting requests; both are served in order."""
        gate = asyncio.Semaphore(self._concurrency) if self._concurrency else nullcontext()
        return gate, asyncio.Lock()
