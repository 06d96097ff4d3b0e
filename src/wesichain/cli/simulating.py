"""simulate: a scenario with many seeds, from the command line, with a status that CI can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wesichain.testing import Report, Scenario, simulate_sync

from .loading import load_object
from .terminal import FAILED, OK, note, print_json, say, write


def simulate(
    scenario: Annotated[
        str, typer.Argument(help="The scenario: file.py:scenario or package.module:scenario.")
    ],
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds are run.")] = 200,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="A folder for the recordings of violations: 'serve' opens it."),
    ] = None,
    tests: Annotated[
        Path | None, typer.Option("--tests", help="A file for a pytest test of each violation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Run a scenario with faults drawn from seeds; exit status 1 if an invariant is violated."""
    report = simulate_sync(load_object(scenario, Scenario), seeds=range(first, first + seeds))
    if runs is not None:
        for violation in report.violations:
            note(f"recorded: {violation.save(runs)}")
    if tests is not None and report.violations:
        tests.write_text("\n\n".join(one.test() for one in report.violations), encoding="utf-8")
        note(f"written: {tests}")
    _print(report, as_json=as_json)
    raise typer.Exit(OK if report.ok else FAILED)


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_plain())
        return
    say(str(report))
    for violation in report.violations:
        write("")
        write(violation.test())
