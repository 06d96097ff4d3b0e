"""The one back-off: policies, nodes of a graph and requests to a provider wait by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core.internal import backoff_delay
from wesichain.errors import LlmTransportError
from wesichain.graph import RetryPolicy
from wesichain.llm.transport.retry_limits import RetryLimits
from wesichain.policy import Backoff


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (5_000, 3.0), (10**9, 3.0)]
)
def test_a_delay_is_multiplied_up_to_its_maximum(attempt: int, seconds: float) -> None:
    assert backoff_delay(attempt, initial=0.5, factor=2.0, maximum=3.0) == seconds


@given(
    attempt=st.integers(1, 10**9),
    initial=st.floats(0, 1e6),
    factor=st.floats(1, 1e300) | st.integers(1, 10**9),
    more=st.floats(0, 1e6),
)
def test_a_delay_never_shrinks_and_never_fails(
    attempt: int, initial: float, factor: float, more: float
) -> None:
    maximum = initial + more
    delays = [
        backoff_delay(number, initial=initial, factor=factor, maximum=maximum)
        for number in (1, attempt, attempt + 1)
    ]
    assert delays == sorted(delays)
    assert delays[0] == initial
    assert delays[-1] <= maximum


def test_every_user_waits_by_it_however_often_it_has_failed() -> None:
    """A power that no float can hold ended the run before."""
    busy = LlmTransportError("busy")
    assert Backoff(0.5, 2.0, 3.0).delay(5_000) == 3.0
    assert RetryPolicy(backoff=0.5, factor=2.0, max_pause=3.0).pause(5_000, chance=0.0) == 3.0
    assert RetryLimits(chance=lambda: 0.0).pause(5_000, busy) == 8.0
    assert [RetryLimits(chance=lambda: 0.0).pause(attempt, busy) for attempt in range(3)] == [0.5, 1.0, 2.0]
