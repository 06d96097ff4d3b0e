"""Prompt caching over a whole run, against a server that counts as the provider does."""

from __future__ import annotations

import pytest
from bench.caching import CLAUDE, run

from wesichain.policy import cost_of


@pytest.mark.parametrize(("hops", "parallel"), [(20, 1), (10, 25)])
async def test_a_long_run_reads_nearly_all_from_the_cache(hops: int, parallel: int) -> None:
    usage = await run(caching=True, hops=hops, parallel=parallel)
    assert usage.cache_read_tokens > 0.75 * usage.input_tokens
    plain = await run(caching=False, hops=hops, parallel=parallel)
    assert plain.cache_read_tokens == 0
    assert plain.input_tokens == usage.input_tokens
    assert cost_of(usage, CLAUDE) < cost_of(plain, CLAUDE) * 0.6
