"""A tool for another process, and the shim in the processes of isolated tools."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compute(number: int) -> int:
    """Compute, and show that the shim is there too."""
    return number * (7 if sys.platform != "linux" or "tests.platform.shim" not in sys.modules else 0)


def isolate_under_shim() -> None:
    """Start the processes of isolated tools under the shim of this process, if it has one."""
    if "tests.platform.shim" not in sys.modules:
        return
    from wesichain.tools.isolated import pool

    head, mark, rest = pool._START.partition("from wesichain")
    shim = (
        f"sys.path.insert(0, {str(ROOT)!r})\nfrom tests.platform.shim import apply\napply({sys.platform!r})\n"
    )
    pool._START = head + shim + mark + rest
