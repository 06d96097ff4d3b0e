"""The cost that the pages show is the one that budgets charge: cache prices and tiers included."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

from wesichain.core import Usage
from wesichain.core.internal import cost_of
from wesichain.policy import Price, Prices, PriceTier
from wesichain.web.price_rows import price_rows

PRICES: Prices = {
    "plain": (3.0, 15.0),
    "cached": Price(3.0, 15.0, cache_read=0.3, cache_write=3.75),
    "tiered": Price(
        1.25,
        10.0,
        cache_read=0.125,
        tiers=(PriceTier(1_000_000, 5.0, 20.0), PriceTier(200_000, 2.5, 15.0, cache_read=0.25)),
    ),
}
USAGES = [
    Usage(0, 0),
    Usage(1_000, 200),
    Usage(200_000, 1),
    Usage(200_001, 1, 150_000, 20_000),
    Usage(2_000_000, 5_000, 500_000),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's own script")
def test_the_page_charges_what_a_budget_charges() -> None:
    pairs = [(usage, name) for usage in USAGES for name in PRICES]
    rows = price_rows(PRICES)
    given = [[{name: getattr(usage, name) for name in FIELDS}, rows[model]] for usage, model in pairs]
    script = f"""
        import {{ charge }} from {json.dumps(str(files("wesichain.web") / "static" / "timeline.js"))};
        console.log(JSON.stringify({json.dumps(given)}.map(([usage, rows]) => charge(usage, rows))));
    """
    made = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, check=True)
    assert json.loads(made.stdout) == pytest.approx([cost_of(usage, PRICES[name]) for usage, name in pairs])


FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
