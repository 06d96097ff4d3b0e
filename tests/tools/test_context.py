"""Cancellation tokens: one way, from any thread, once."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable

import pytest

from wesichain.core.internal import CallToken
from wesichain.tools import CancellationToken, ToolContext


class Run:
    """Has a token, as a run does."""

    def __init__(self) -> None:
        self.token = CancellationToken()


class Glanced(CancellationToken):
    """A token at which something happens when it is looked at, as another thread might do it just then."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        super().__init__()

    @property
    def _reason(self) -> str | None:
        self._happens()
        return None

    @_reason.setter
    def _reason(self, reason: str | None) -> None: ...  # pyright: ignore[reportIncompatibleVariableOverride]  # a slot there


def test_the_first_reason_wins() -> None:
    token = CancellationToken()
    token.cancel("enough")
    token.cancel("too late")
    assert token.cancelled
    assert token.reason == "enough"


def test_what_is_no_reason_cancels_too() -> None:
    token = CancellationToken()
    token.cancel(None)  # type: ignore[arg-type]  # as callers without a type checker do
    assert token.cancelled
    assert token.reason == "cancelled"


def test_a_callback_that_comes_late_runs_at_once() -> None:
    token, seen = CancellationToken(), list[str]()
    token.cancel()
    token.on_cancel(lambda: seen.append("late"))()
    assert seen == ["late"]


def test_a_callback_can_be_taken_back() -> None:
    token, seen = CancellationToken(), list[str]()
    forget = token.on_cancel(lambda: seen.append("no"))
    forget()
    forget()
    token.cancel()
    assert seen == []


def test_one_that_raises_does_not_silence_the_others() -> None:
    token, seen = CancellationToken(), list[str]()
    token.on_cancel(lambda: 1 / 0)
    token.on_cancel(lambda: seen.append("heard"))
    with pytest.raises(ZeroDivisionError):
        token.cancel()
    assert seen == ["heard"]
    assert token.cancelled


def test_a_callback_may_cancel_again() -> None:
    token = CancellationToken()
    token.on_cancel(token.cancel)
    token.cancel("first")
    assert token.reason == "first"


class TestACallThatIsGivenUp:
    """`abandon` takes no lock: a watcher that comes at the same moment is told all the same, and once."""

    def test_its_run_goes_on(self) -> None:
        run = Run()
        call, seen = CallToken(run), list[str]()
        call.on_cancel(lambda: seen.append("heard"))
        call.abandon("given up")
        call.abandon("again")
        assert (seen, call.reason, run.token.cancelled) == (["heard"], "given up", False)
        call.on_cancel(lambda: seen.append("late"))
        assert seen == ["heard", "late"]

    def test_whoever_begins_to_watch_at_that_moment_is_told_once(self) -> None:
        run, seen = Run(), list[str]()
        call = CallToken(run)
        run.token = Glanced(lambda: call.abandon("given up"))
        call.on_cancel(lambda: seen.append("told"))
        assert (seen, call.reason) == (["told"], "given up")


async def test_wait_hears_a_cancel_from_another_thread() -> None:
    token = CancellationToken()
    threading.Timer(0.02, token.cancel).start()
    await asyncio.wait_for(token.wait(), 10)


async def test_an_abandoned_wait_leaves_nothing_behind() -> None:
    token = CancellationToken()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(token.wait(), 0.01)
    token.cancel()


async def test_callbacks_of_a_loop_run_in_that_loop() -> None:
    token, threads = CancellationToken(), list[int]()
    token.on_cancel(lambda: threads.append(threading.get_ident()))
    canceller = threading.Thread(target=token.cancel)
    canceller.start()
    canceller.join()
    while not threads:
        await asyncio.sleep(0.001)
    assert threads == [threading.get_ident()]


def test_a_loop_that_is_gone_is_no_trouble() -> None:
    token = CancellationToken()

    async def watch() -> None:
        token.on_cancel(lambda: None)

    asyncio.run(watch())
    token.cancel()


def test_many_threads_agree_on_one_reason() -> None:
    token, seen = CancellationToken(), list[str]()
    token.on_cancel(lambda: seen.append(token.reason or ""))
    threads = [threading.Thread(target=token.cancel, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [token.reason]


def test_a_context_is_a_value_with_a_token_of_its_own() -> None:
    context = ToolContext()
    assert (context.correlation_id, context.step_id, context.idempotency_key) == ("", 0, "")
    assert context.cancellation is not ToolContext().cancellation
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.step_id = 1  # type: ignore[misc]  # that is the point
