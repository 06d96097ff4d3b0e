"""eval: run the cases of a file through an agent, score the runs, and compare two versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.agent import Agent
from wesichain.cli.loading import load_object
from wesichain.cli.options import (
    AgentMaker,
    Checks,
    Deps,
    Domain,
    Json,
    JudgeModel,
    Playbook,
    Runs,
    Workers,
    runs_words,
)
from wesichain.cli.target import Target
from wesichain.cli.terminal import (
    CTRL_C,
    FAILED,
    OK,
    echo,
    note,
    on_ctrl_c,
    print_command,
    print_json,
    progress,
    table,
)
from wesichain.core import to_json
from wesichain.core.internal import home_folder, to_plain
from wesichain.errors import ConfigError
from wesichain.evals import (
    Case,
    Check,
    Comparison,
    Judge,
    Report,
    Result,
    compare,
    evaluate,
    read_cases,
    read_results,
)
from wesichain.platform.files import replace
from wesichain.store import append_line
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder


def eval_(
    cases: Annotated[Path, typer.Argument(help='JSON Lines: {"task": TEXT, "expected": ANSWER, ...}.')],
    *,
    agent: AgentMaker,
    deps: Deps = None,
    checks: Checks = None,
    judge: JudgeModel = None,
    against: Annotated[
        str | None,
        typer.Option(help="Results of an earlier version, or 'none': the same agent without --playbook."),
    ] = None,
    playbook: Playbook = None,
    domain: Domain = "general",
    at_least: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of runs that must pass.",
            show_default="1, or with --against none",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="The number of runs per case.")] = 1,
    workers: Workers = 4,
    tag: Annotated[str | None, typer.Option(help="Only cases with this tag.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file of results.", show_default="CASES.results.jsonl"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with the existing results.")] = False,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Run cases through an agent, score the runs, and compare with an earlier version.

    With `--playbook PATH --against none`, each case is run with and without the playbook, in pairs.
    """
    results = out or cases.with_suffix(".results.jsonl")
    is_paired = against == "none"
    chosen = [case for case in read_cases(cases) if tag is None or tag in case.tags]
    if not chosen:
        raise ConfigError(f"no case of {cases} has the tag {tag!r}")
    if is_paired and playbook is None:
        raise ConfigError("--against none compares with and without a playbook: name it with --playbook PATH")
    earlier = read_results(Path(against)) if against is not None and not is_paired else None
    functions: list[Check] = [load_object(name, object) for name in checks or ()]
    options: dict[str, Any] = {"checks": functions, "judge": Judge(judge) if judge else None}
    options |= {"repeat": repeat, "at_once": workers}
    target = Target.of(agent, deps=deps, playbook=playbook, domain=domain)
    folder = runs or home_folder() / "runs"

    def execute(change: Callable[[Agent[Any]], Agent[Any]], to: Path) -> tuple[Report | None, bool]:
        known = _finished(to, chosen, resume=resume)
        work = partial(_evaluate, target, change, chosen, done=known, **options)
        return asyncio.run(_execute(work, len(known), len(chosen) * repeat, to, folder))

    report, pressed = None, False
    if is_paired:
        without = results.with_suffix(".without.jsonl")
        first, pressed = execute(lambda one: one.with_playbook(None), without)
        earlier = first.results if first is not None else None
    if earlier is not None or not is_paired:
        report, pressed = execute(lambda one: one, results)
    if report is None:
        note(f"stopped; the results so far are in {results}: continue with --resume")
        raise typer.Exit(CTRL_C if pressed else FAILED)
    comparison = compare(earlier, report.results) if earlier is not None else None
    _show(report, comparison, results, runs, as_json=as_json)
    wanted = at_least if at_least is not None else 0.0 if comparison is not None else 1.0
    is_bad = report.share < wanted or (comparison is not None and comparison.is_worse)
    raise typer.Exit(FAILED if is_bad else OK)


async def _evaluate(
    target: Target, change: Callable[[Agent[Any]], Agent[Any]], cases: Sequence[Case], **settings: Any
) -> Report:
    """Open an agent, change it, and evaluate it."""
    deps = None if target.deps is None else target.open_deps
    async with target.open() as program:
        return await evaluate(change(program), cases, deps=deps, **settings)


def _finished(results: Path, cases: Sequence[Case], *, resume: bool) -> tuple[Result, ...]:
    """The results of an earlier evaluation that is resumed; otherwise they are moved to another file."""
    if not results.exists():
        return ()
    if not resume:
        before = results.with_suffix(".before.jsonl")
        replace(results, before)
        note(f"the results of the evaluation before this one are in {before}")
        return ()
    names = {case.id for case in cases}
    return tuple(one for one in read_results(results) if one.case in names)


async def _execute(
    work: Callable[..., Coroutine[Any, Any, Report]], known: int, total: int, results: Path, folder: Path
) -> tuple[Report | None, bool]:
    """Run an evaluation, with recordings and a progress bar; return None for the report after Ctrl-C."""
    token = CancellationToken()
    recorder = Recorder(folder)
    with progress() as shown:
        bar = shown.add_task("runs", total=total, completed=known)

        def on_result(result: Result) -> None:
            if token.cancelled:
                return  # the run was cut off: it is run again
            _append(results, result)
            _append(folder / "scores.jsonl", result)
            shown.advance(bar)

        evaluation = asyncio.ensure_future(work(events=[recorder], on_result=on_result, cancellation=token))

        def stop() -> None:
            token.cancel("Ctrl-C")
            evaluation.cancel()

        on_ctrl_c(stop)
        try:
            return await evaluation, False
        except asyncio.CancelledError:
            return None, token.cancelled
        finally:
            recorder.close()


def _append(path: Path, result: Result) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    append_line(path, to_json(result).encode())


def _show(
    report: Report, comparison: Comparison | None, results: Path, runs: Path | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "passed": sum(one.passed for one in report.results),
                "runs": len(report.results),
                "share": report.share,
                "cost": report.cost,
                "failures": [
                    {"case": one.case, "run_id": one.run_id, "why": one.why} for one in report.failures
                ],
                "comparison": comparison and {**to_plain(comparison), "is_worse": comparison.is_worse},
            }
        )
        return
    if report.failures:
        table(("case", "run", "why"), ((one.case, one.run_id[:12], one.why) for one in report.failures))
        echo()
    passed = sum(one.passed for one in report.results)
    tokens = report.usage.total_tokens
    cost = f", cost {report.cost:.4f} dollars" if report.cost else ""
    echo(f"{passed} of {len(report.results)} runs passed ({report.share:.0%}), {tokens:,} tokens{cost}")
    if comparison is not None:
        for line in _comparison_lines(comparison):
            echo(line)
    note(f"the results are in {results}")
    print_command("see the scores", "serve", *runs_words(runs))


def _comparison_lines(found: Comparison) -> list[str]:
    shares = f"{found.before:.0%} -> {found.after:.0%}"
    interval = f"{found.low:+.1%} to {found.high:+.1%}"
    lines = [
        f"over {found.cases} cases: {shares}, a difference of {found.difference:+.1%} (95 %: {interval})"
    ]
    if found.steps is not None and found.tokens is not None:
        lines.append(
            f"where both pass: {found.steps[0]:.1f} -> {found.steps[1]:.1f} steps, "
            f"{found.tokens[0]:,.0f} -> {found.tokens[1]:,.0f} tokens"
        )
    lines += [f"better: {', '.join(found.better)}"] if found.better else []
    lines += [f"worse: {', '.join(found.worse)}"] if found.worse else []
    gone = [*found.only_before, *found.only_after]
    lines += [f"in one of the two only: {', '.join(gone)}"] if gone else []
    return lines
