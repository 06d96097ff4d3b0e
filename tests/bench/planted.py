"""A scenario whose faults are planted from outside: more work, a leak, errors, a crash."""

from __future__ import annotations

import os
from itertools import repeat
from pathlib import Path

from bench.scenarios import Scenario

_kept: list[bytes] = []


def _setup(_: Path) -> dict[str, float]:
    return {
        "work": float(os.environ.get("PLANT_WORK", "1")),
        "leak": float(os.environ.get("PLANT_LEAK", "0")),
        "fault": float(os.environ.get("PLANT_FAULT", "0")),
    }


async def _run(plant: dict[str, float]) -> int:
    held = bytearray(100_000)
    for _ in repeat(None, int(20_000 * plant["work"])):
        pass
    if plant["leak"]:
        _kept.append(bytes(int(plant["leak"])))
    if plant["fault"] == 1:
        raise RuntimeError("planted")
    if plant["fault"] == 2:
        os._exit(3)
    return len(held) and 1


SCENARIOS = (Scenario("planted", "planted", _setup, _run),)
