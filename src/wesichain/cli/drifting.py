"""drift: where today's agent differs from its recordings, from the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.agent import Agent
from wesichain.core.internal import to_plain
from wesichain.evals import Comparison, Judge, read_cases
from wesichain.testing import Drift, compare_drift, drift_of, drift_report, read_runs

from .loading import load_agent, load_object
from .terminal import FAILED, OK, fail, print_json, write


def drift(
    agent: Annotated[str, typer.Argument(help="The agent: file.py:agent or package.module:agent.")],
    folder: Annotated[Path, typer.Argument(help="A folder of recordings or cassettes, or one such file.")],
    *,
    cases: Annotated[
        Path | None, typer.Option(help="Cases that say what a good answer is, for --live.")
    ] = None,
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", help="A function (case, outcome), for --live: file.py:name. Repeatable."),
    ] = None,
    judge: Annotated[str | None, typer.Option(help="A model PROVIDER:NAME that reads rubrics.")] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Run those that differ to their end, with the real model and tools."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Report where the agent first differs from each recording; status 1 if one does. Offline by default."""
    if not folder.exists():
        fail(f"there is no folder or file {folder}")
    program = load_agent(agent)
    known = read_cases(cases) if cases is not None else ()
    functions: list[Any] = [load_object(name, object) for name in checks or ()]
    found, comparison = asyncio.run(
        _look(program, folder, known, functions, Judge(judge) if judge else None, live=live)
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


async def _look(
    program: Agent[Any], folder: Path, cases: Any, checks: list[Any], judge: Judge | None, *, live: bool
) -> tuple[list[Drift], Comparison | None]:
    found = [await drift_of(program, path, recording) for path, recording in read_runs(folder)]
    if not live:
        return found, None
    return found, await compare_drift(program, found, cases=cases, checks=checks, judge=judge)
