"""Waivers: losses that are accepted until a date, in bench/waivers.toml."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .judge import LIMITS, Finding, Verdict

METRICS = (*LIMITS, "errors")


@dataclass(frozen=True, slots=True)
class Waiver:
    """Accepts a loss in one metric of a scenario until the end of a day."""

    scenario: str
    metric: str
    reason: str
    expires: dt.date


def read_waivers(path: Path, scenarios: Iterable[str]) -> list[Waiver]:
    """The rows of the file. An incomplete row, or an unknown name, ends the program."""
    if not path.is_file():
        return []
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("waiver", [])
    return [_read(row, number, set(scenarios)) for number, row in enumerate(rows, 1)]


def _read(row: dict[str, object], number: int, scenarios: set[str]) -> Waiver:
    where = f"waiver {number}"
    match row:
        case {
            "scenario": str(scenario),
            "metric": str(metric),
            "reason": str(reason),
            "expires": dt.date() as day,
        }:
            if len(row) > 4:
                raise SystemExit(f"{where} has unknown keys; scenario, metric, reason and expires are all")
            if scenario not in scenarios:
                raise SystemExit(f"{where}: there is no scenario {scenario!r}")
            if metric not in METRICS:
                raise SystemExit(f"{where}: there is no metric {metric!r}; use one of {', '.join(METRICS)}")
            if not reason.strip():
                raise SystemExit(f"{where} gives no reason")
            return Waiver(
                scenario, metric, reason.strip(), day.date() if isinstance(day, dt.datetime) else day
            )
        case _:
            raise SystemExit(f"{where} needs scenario, metric, reason (texts) and expires (a date)")


def waive(
    findings: Sequence[Finding], waivers: Sequence[Waiver], *, today: dt.date
) -> tuple[list[Finding], list[str]]:
    """The losses that are not waived, and messages about the waivers."""
    said = [
        f"the waiver for {waiver.metric} of {waiver.scenario} expired on {waiver.expires} and is ignored"
        for waiver in waivers
        if waiver.expires < today
    ]
    valid = {(waiver.scenario, waiver.metric): waiver for waiver in waivers if waiver.expires >= today}
    standing: list[Finding] = []
    for finding in findings:
        waiver = valid.get((finding.scenario, finding.metric))
        if waiver is None or finding.verdict is Verdict.PASSED:
            standing.append(finding)
        else:
            said.append(
                f"waived until {waiver.expires}: {finding.scenario} {finding.metric}, {finding.message} "
                f"({waiver.reason})"
            )
    return standing, said
