"""Fallback: the next model answers when one cannot, and what each said is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from wesichain import Agent
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk, Usage
from wesichain.errors import ConfigError, LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm import LlmTraits, StreamingLlm, StreamItem
from wesichain.llm.fallback import Fallback
from wesichain.llm.limiter import RateLimiter
from wesichain.llm.relay import response_of
from wesichain.policy import Budget, cost_of_events
from wesichain.testing import FunctionLlm, ScriptedLlm

REQUEST = LlmRequest("m", (Message(Role.USER, "hi"),))
BUSY = LlmTransportError("busy", retryable=True, retry_after=9.0)
GONE = LlmTransportError("gone", retryable=True, retry_after=4.0)
REFUSED = LlmRejectedError("no such model")


class Scripted:
    """A model that says its name, or fails; as a stream, before or after the first piece."""

    def __init__(self, model: str, error: Exception | None = None, *, after_piece: bool = False) -> None:
        self.model = model
        self.traits = LlmTraits(native_output=model != "text")
        self.asked = 0
        self._error = error
        self._after_piece = after_piece

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.asked += 1
        if self._error:
            raise self._error
        return LlmResponse(self.model)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        self.asked += 1
        if self._error and not self._after_piece:
            raise self._error
        yield TextChunk(self.model)
        if self._error:
            raise self._error
        yield LlmResponse(self.model)


class Silent:
    """A model that cannot stream."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("silent")


@pytest.mark.parametrize(
    "wrap", [lambda model: Fallback([model]), lambda model: RateLimiter(model, requests_per_minute=9)]
)
async def test_who_does_not_want_a_stream_gets_none(wrap: Any) -> None:
    broken = Scripted("m")
    broken.stream = None  # type: ignore[assignment,method-assign]  # whoever calls it fails
    assert (await wrap(broken).complete(REQUEST)).content == "m"


async def answers(llm: StreamingLlm, *, how: str) -> str:
    if how == "asked":
        return (await llm.complete(REQUEST)).content
    items = [item async for item in llm.stream(REQUEST)]
    last = items[-1]
    assert isinstance(last, LlmResponse)
    return last.content


@pytest.mark.parametrize("how", ["asked", "streamed"])
@pytest.mark.parametrize(
    ("errors", "expected", "asked"),
    [
        pytest.param([None, None], "m0", [1, 0], id="the-first-answers"),
        pytest.param([BUSY, None], "m1", [1, 1], id="a-busy-one-is-passed-over"),
        pytest.param([REFUSED, None], "m1", [1, 1], id="so-is-one-that-refuses"),
        pytest.param([BUSY, REFUSED, None], "m2", [1, 1, 1], id="the-third-answers"),
    ],
)
async def test_the_next_model_answers(
    how: str, errors: list[LlmError | None], expected: str, asked: list[int]
) -> None:
    models = [Scripted(f"m{number}", error) for number, error in enumerate(errors)]
    assert await answers(Fallback(models), how=how) == expected
    assert [model.asked for model in models] == asked


@pytest.mark.parametrize("how", ["asked", "streamed"])
@pytest.mark.parametrize(
    ("errors", "kind", "retryable", "after"),
    [
        pytest.param([BUSY, GONE], LlmTransportError, True, 4.0, id="all-busy"),
        pytest.param([REFUSED, BUSY], LlmTransportError, True, 9.0, id="one-may-come-back"),
        pytest.param([REFUSED, REFUSED], LlmRejectedError, False, None, id="all-refuse"),
    ],
)
async def test_when_all_fail_every_error_is_kept(
    how: str, errors: list[LlmError], kind: type[LlmError], retryable: bool, after: float | None
) -> None:
    llm = Fallback([Scripted(f"m{number}", error) for number, error in enumerate(errors)])
    with pytest.raises(LlmError) as caught:
        await answers(llm, how=how)
    error = caught.value
    assert (type(error), error.retryable, error.retry_after) == (kind, retryable, after)
    assert all(f"m{number}: {each}" in str(error) for number, each in enumerate(errors))
    assert isinstance(error.__cause__, ExceptionGroup)
    assert list(error.__cause__.exceptions) == errors


@pytest.mark.parametrize("how", ["asked", "streamed"])
@pytest.mark.parametrize("error", [REFUSED, ConfigError("no key"), ValueError("foreign")])
async def test_what_is_not_wanted_is_raised_as_it_is(how: str, error: Exception) -> None:
    second = Scripted("m1")
    llm = Fallback([Scripted("m0", error), second], when=lambda error: error.retryable)
    with pytest.raises(type(error)) as caught:
        await answers(llm, how=how)
    assert caught.value is error
    assert second.asked == 0


async def test_a_stream_that_has_begun_is_not_passed_on() -> None:
    cut = LlmResponseError("cut", retryable=True)
    second = Scripted("m1")
    items = Fallback([Scripted("m0", cut, after_piece=True), second]).stream(REQUEST)
    assert await anext(items) == TextChunk("m0")
    with pytest.raises(LlmResponseError) as caught:
        await anext(items)
    assert caught.value is cut
    assert second.asked == 0


async def test_a_model_that_cannot_stream_gives_its_response() -> None:
    items = [item async for item in Fallback([Scripted("m0", BUSY), Silent()]).stream(REQUEST)]
    assert items == [LlmResponse("silent", model="Silent")]


def test_it_promises_what_every_model_keeps() -> None:
    llm = Fallback([Scripted("a"), Scripted("text")])
    assert isinstance(llm, StreamingLlm)
    assert (llm.model, llm.traits) == ("a", LlmTraits(native_output=False))
    assert Fallback([Scripted("a"), Scripted("b")]).traits == LlmTraits(native_output=True)


def test_no_models_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        Fallback([])


@pytest.mark.parametrize("models", [5, ["openai:gpt"], Scripted("a")], ids=["a-number", "names", "one-model"])
def test_what_is_no_list_of_models_is_a_config_error(models: Any) -> None:
    with pytest.raises(ConfigError, match="takes a list of models"):
        Fallback(models)


# --- what it costs -------------------------------------------------------------------------------------


PRICES = {"first": (1.0, 1.0), "second": (100.0, 100.0)}


def both(*, second: str = "second") -> Fallback:
    used = Usage(1_000_000, 0)
    failing = ScriptedLlm([LlmTransportError("busy")] * 9, model="first")
    return Fallback([failing, FunctionLlm(lambda _: LlmResponse("yes", usage=used), model=second)])


@pytest.mark.parametrize("is_nested", [False, True])
async def test_a_reply_is_paid_for_at_the_price_of_the_model_that_gave_it(is_nested: bool) -> None:
    llm = Fallback([both()]) if is_nested else both()
    agent = Agent(llm, budget=Budget(prices=PRICES))
    result = await agent.run("q")
    assert result.cost == 100.0
    assert cost_of_events(result.events) == 100.0
    async with agent.stream("q") as run:
        async for _ in run:
            pass
    assert run.result.cost == 100.0


async def test_a_model_of_unknown_price_behind_it_makes_the_cost_unknown() -> None:
    result = await Agent(both(second="odd"), budget=Budget(prices=PRICES)).run("q")
    assert result.cost is None


async def test_a_limited_cost_needs_the_prices_of_all_its_models() -> None:
    limited = Budget(cost=500.0, prices=PRICES)
    assert (await Agent(both(), budget=limited).run("q")).cost == 100.0
    with pytest.raises(ConfigError, match="'odd'"):
        Agent(both(second="odd"), budget=limited)
    with pytest.raises(ConfigError, match="'odd'"):
        await Agent(RateLimiter(both(second="odd"), requests_per_minute=9)).run("q", budget=limited)
    other = Agent(both(second="odd"), name="other")
    with pytest.raises(ConfigError, match="'odd'"):
        await Agent(both(), handoffs=[other], budget=limited).run("q")


async def test_a_stream_without_a_response_is_worth_another_try() -> None:
    async def items() -> AsyncGenerator[StreamItem, None]:
        yield TextChunk("a")

    with pytest.raises(LlmResponseError) as caught:
        await response_of(items())
    assert (str(caught.value), caught.value.retryable) == (
        "the reply ended without a response; try again",
        True,
    )
