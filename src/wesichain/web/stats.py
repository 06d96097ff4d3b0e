"""Statistics of recordings: totals of tools, models and errors, and the steps of the newest runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from typing import Any

from wesichain.trace import Figures, RunSummary

from .digests import figures
from .run_store import RunStore

CURVE = 500  # runs
_PATIENCE = 0.5  # seconds for reading files before the response; the rest are read after it
_NAMES = 500  # listed tools or models


def statistics(
    store: RunStore, runs: Sequence[RunSummary], *, without: Collection[str] = ()
) -> dict[str, Any]:
    """The statistics of recordings. `counted` is the number of those read so far.

    Statuses, cost and curve leave out the runs in `without`.
    """
    tools: dict[str, Figures] = {}
    models: dict[str, Figures] = {}
    tokens: dict[str, tuple[int, int]] = {}
    faults: Counter[str] = Counter()
    cost: float | None = None
    counted = 0
    deadline = monotonic() + _PATIENCE
    for run in runs:
        is_early = monotonic() < deadline
        digest = store.digests.of(run.path, run.size) if is_early else store.digests.known(run.path)
        if digest is None:
            continue
        counted += 1
        figures(tools, digest.tools)
        figures(models, digest.models)
        faults.update(digest.faults)
        for model, (read, written) in digest.tokens.items():
            before = tokens.get(model, (0, 0))
            tokens[model] = before[0] + read, before[1] + written
        if digest.cost is not None and run.run_id not in without:
            cost = (cost or 0.0) + digest.cost
    names = store.newest()
    alone = [run for run in runs if run.run_id not in without]
    return {
        "runs": len(runs),
        "counted": counted,
        "durable": 0,
        "statuses": dict(Counter(store.status(run) for run in alone)),
        "tools": _table(tools),
        "models": [
            row | dict(zip(("input_tokens", "output_tokens"), tokens.get(row["name"], (0, 0)), strict=True))
            for row in _table(models)
        ],
        "faults": [{"name": name, "count": count} for name, count in faults.most_common(50)],
        "cost": cost,
        "curve": [store.plain(run, names) for run in reversed(alone[:CURVE])],
    }


def _table(table: Mapping[str, Figures]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "count": one.count,
            "failures": one.failures,
            "p50": one.p50,
            "p95": one.p95,
            "p99": one.p99,
            "total_ms": one.total_ms,
        }
        for name, one in table.items()
    ]
    return sorted(rows, key=lambda row: (-int(row["count"]), str(row["name"])))[:_NAMES]
