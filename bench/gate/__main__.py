"""python -m bench.gate [--base REVISION] [--seconds N] [--only NAMES]: is the tree worse than the base?

Exit status 0: passed, or only to be reviewed. 1: blocked.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.scenarios import SCENARIOS

from .compare import Comparison, Result
from .environments import differing, install, pins, run_on
from .judge import MEMORY_FLOOR, Finding, Verdict, percent
from .revisions import base_revision, export, git, is_shallow, lock_of
from .sides import ROOT, build
from .waivers import read_waivers, waive

WAIVERS = ROOT / "bench" / "waivers.toml"


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--base", help="the revision to compare with, where the usual one is not wanted")
    options.add_argument("--seconds", type=float, default=100.0, help="of time, after which no round begins")
    options.add_argument("--only", default="", help="scenarios, with commas between")
    given = options.parse_args()
    names = {name for name in given.only.split(",") if name}
    chosen = [scenario for scenario in SCENARIOS if (scenario.name in names if names else scenario.gated)]
    waivers = read_waivers(WAIVERS, [scenario.name for scenario in SCENARIOS])
    today = dt.datetime.now(dt.UTC).date()
    base = asked(given.base) if given.base else base_revision(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = export(ROOT, base[0], folder / "export") if base else None
        if base is None or source is None:
            shallow = " (the clone is shallow: 'git fetch --unshallow' brings it)" if is_shallow(ROOT) else ""
            print(f"gate: there is no earlier revision to compare with{shallow}; passed")
            return 0
        print(f"gate: the working tree against {base[0][:10]} ({base[1]})", flush=True)
        changed = differing(pins(lock_of(ROOT, base[0])), pins(lock_of(ROOT, None)), run_on())
        if not changed and same_files(source, ROOT / "src"):
            print("gate: src is the same in both, and so is what it runs on; passed")
            return 0
        comparison = Comparison.of(
            build("base", source, folder, python=python_of(base[0], changed, folder / "environment")),
            build("tree", ROOT / "src", folder),
            [scenario.name for scenario in chosen],
        )
        comparison.say = say
        comparison.run(
            seconds=given.seconds,
            memory=[scenario.name for scenario in chosen if scenario.in_process],
            waived={row.scenario for row in waivers if row.metric == "p95" and row.expires >= today},
        )
    results = list(comparison.results.values())
    print(*map(row, results), sep="\n")
    if all(result.errors[0] for result in results):
        say("the base runs none of the scenarios, so that there is nothing to compare with")
    findings = [finding for result in results for finding in result.findings()]
    standing, said = waive(findings, waivers, today=today)
    for line in said:
        say(line)
    return conclude(standing, undecided=comparison.open_names())


def say(text: str) -> None:
    print(f"gate: {text}", flush=True)


def python_of(commit: str, changed: list[str], folder: Path) -> str:
    """The interpreter for the base: this one, or one with the packages of its lock file."""
    if not changed:
        return sys.executable
    say(f"the base was locked to another {', '.join(changed)}: it gets an environment of its own")
    locked = pins(lock_of(ROOT, commit))
    python = install([line for name in run_on() for line in locked.get(name, ())], folder)
    if python is None:
        say("which could not be installed: both sides run on the packages of this one")
    return python or sys.executable


def same_files(one: Path, other: Path) -> bool:
    return sources(one) == sources(other)


def sources(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}


def asked(revision: str) -> tuple[str, str]:
    commit = git(ROOT, "rev-parse", "--verify", f"{revision}^{{commit}}")
    if commit is None:
        raise SystemExit(f"gate: there is no revision {revision!r}")
    return commit, f"{revision}, as asked"


def conclude(findings: Sequence[Finding], *, undecided: Sequence[str] = ()) -> int:
    """Print the findings, and return the exit status."""
    for finding in findings:
        print(f"{finding.verdict.value.upper():<8} {finding.scenario} {finding.metric}: {finding.message}")
    verdicts = {finding.verdict for finding in findings}
    if Verdict.BLOCKED in verdicts:
        print("gate: BLOCKED; mend it, or add a row with reason and expiry to bench/waivers.toml")
        return 1
    if undecided:
        say(f"there was no time to decide on {', '.join(undecided)}; give it more with --seconds")
    print("gate: passed, but REVIEW what got slower" if Verdict.REVIEW in verdicts else "gate: passed")
    return 0


def row(result: Result) -> str:
    """One line of the table: p50, p95 and memory of the tree against the base."""
    if result.has_failed:
        sides = [name for name, count in zip(("base", "tree"), result.errors, strict=True) if count]
        return f"{result.name:<16} not measured: {' and '.join(sides)} failed: {result.error}"
    p50, p95 = (
        percent(median(ratios)) if ratios else "-" for ratios in (result.rounds.p50, result.rounds.p95)
    )
    memory = "-"
    if result.memory:
        before, after = result.memory
        memory = "same" if abs(after - before) <= MEMORY_FLOOR else percent(after / max(1, before))
    return (
        f"{result.name:<16} p50 {p50:>9}   p95 {p95:>9}   memory {memory:>9}   {len(result.rounds):>2} rounds"
    )


if __name__ == "__main__":
    sys.exit(main())
