"""improve: rewrite an agent's instructions and tool descriptions, and write them to a file if confirmed."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wesichain.cli.loading import load_object
from wesichain.cli.options import AgentMaker, Checks, Deps, Json, JudgeModel, Workers, Yes
from wesichain.cli.target import Target
from wesichain.cli.terminal import FAILED, OK, confirm, echo, is_interactive, note, print_json
from wesichain.core.internal import dump_json
from wesichain.evals import Check, Improvement, Judge, read_cases
from wesichain.evals import improve as improve_texts


def improve(
    cases: Annotated[Path, typer.Argument(help='JSON Lines: {"task": TEXT, "expected": ANSWER, ...}.')],
    *,
    agent: AgentMaker,
    deps: Deps = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model that rewrites the texts: PROVIDER:NAME.", show_default="the agent's own"
        ),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="The maximum number of runs.")] = 200,
    checks: Checks = None,
    judge: JudgeModel = None,
    workers: Workers = 4,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new texts, as JSON.")] = Path("improved.json"),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Rewrite an agent's instructions and tool descriptions; half of the cases are held out to test them.

    The agent is not changed. The texts are written to a file after confirmation. Exit status 1 if they are
    not significantly better.
    """
    chosen, target = read_cases(cases), Target.of(agent, deps=deps)
    functions: list[Check] = [load_object(name, object) for name in checks or ()]

    async def improved() -> Improvement:
        async with target.open() as program:
            return await improve_texts(
                program,
                chosen,
                llm=model,
                budget=budget,
                checks=functions,
                judge=Judge(judge) if judge else None,
                at_once=workers,
                deps=None if target.deps is None else target.open_deps,
                on_step=note,
            )

    found = asyncio.run(improved())
    if as_json:
        print_json({**asdict(found), "tools": dict(found.tools)})
    else:
        _show(found)
    if found.passed and (yes or (is_interactive() and confirm(f"write these texts to {out}?"))):
        out.write_bytes(
            dump_json({"instructions": found.instructions, "tools": dict(found.tools)}).encode() + b"\n"
        )
        note(f"the texts are in {out}; put them into the agent")
    else:
        note("nothing was written")
    raise typer.Exit(OK if found.passed else FAILED)


def _show(found: Improvement) -> None:
    echo(found.diff or "no rewriting passed more of the cases")
    shares = f"{found.before:.0%} -> {found.after:.0%}"
    interval = f"{found.low:+.1%} to {found.high:+.1%}"
    echo(f"held-out cases: {shares}, a difference of {found.lift:+.1%} (95 %: {interval}), {found.runs} runs")
