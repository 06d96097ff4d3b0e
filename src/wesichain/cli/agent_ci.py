"""drift and simulate: compare an agent with its recordings, and run it with faults, in CI."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.core.internal import to_plain
from wesichain.evals import Comparison, Judge, read_cases
from wesichain.testing import (
    Drift,
    Scenario,
    compare_drift,
    drift_of,
    drift_report,
    read_runs,
    simulate_sync,
)

from .loading import load_object
from .options import AgentName, Checks, Deps, Json, JudgeModel
from .target import Target
from .terminal import FAILED, OK, echo, fail, note, print_json, write


def drift(
    agent: AgentName,
    folder: Annotated[Path, typer.Argument(help="A folder of recordings or cassettes, or one such file.")],
    *,
    cases: Annotated[Path | None, typer.Option(help="Cases with the expected answers, for --live.")] = None,
    checks: Checks = None,
    deps: Deps = None,
    judge: JudgeModel = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Run the differing runs to their end, with the real model and tools."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Report where the agent first differs from each recording, offline; exit status 1 if one differs."""
    if not folder.exists():
        fail(f"there is no folder or file {folder}")
    known = read_cases(cases) if cases is not None else ()
    functions: list[Any] = [load_object(name, object) for name in checks or ()]
    target = Target.of(agent, deps=deps)
    found, comparison = asyncio.run(
        _compare(target, folder, known, functions, Judge(judge) if judge else None, live=live)
    )
    if not found:
        fail(f"{folder} has no recording and no cassette")
    differing = [one for one in found if one.what]
    if as_json:
        print_json(
            {
                "runs": len(found),
                "differing": len(differing),
                "drifts": [one.to_plain() for one in found],
                "live": None if comparison is None else to_plain(comparison),
            }
        )
    else:
        write(drift_report(found, comparison).rstrip("\n"))
    raise typer.Exit(FAILED if differing else OK)


async def _compare(
    target: Target, folder: Path, cases: Any, checks: list[Any], judge: Judge | None, *, live: bool
) -> tuple[list[Drift], Comparison | None]:
    async with target.open() as program:
        runs = [*read_runs(folder)]
        own = [(path, run) for path, run in runs if run.agent in ("", program.name)]
        if runs and not own:
            others = ", ".join(sorted({run.agent for _, run in runs}))
            fail(f"{folder} has no run of the agent {program.name!r}: its runs are of {others}")
        if left := len(runs) - len(own):
            note(f"{left} runs of other agents are left out")
        found = [await drift_of(program, path, recording) for path, recording in own]
        if not live:
            return found, None
        deps = None if target.deps is None else target.open_deps
        return found, await compare_drift(program, found, cases=cases, checks=checks, judge=judge, deps=deps)


def simulate(
    scenario: Annotated[
        str, typer.Argument(help="The scenario: file.py:scenario or package.module:scenario.")
    ],
    *,
    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds.")] = 200,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="A folder for the recordings of violations: 'serve' opens it."),
    ] = None,
    tests: Annotated[
        Path | None, typer.Option("--tests", help="A file for a pytest test of each violation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a scenario with faults drawn from seeds; exit status 1 if an invariant is violated."""
    report = simulate_sync(load_object(scenario, Scenario), seeds=range(first, first + seeds))
    if runs is not None:
        for violation in report.violations:
            note(f"recorded: {violation.save(runs)}")
    if tests is not None and report.violations:
        tests.write_text("\n\n".join(one.test() for one in report.violations), encoding="utf-8", newline="\n")
        note(f"written: {tests}")
    if as_json:
        print_json(report.to_plain())
    else:
        echo(str(report))
        for violation in report.violations:
            write(f"\n{violation.test()}")
    raise typer.Exit(OK if report.ok else FAILED)
