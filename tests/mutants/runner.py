"""The runner: plants each mutant in a copy of the source, runs the tests it names, and restores the copy.

A mutant is caught when a test fails that passes without it, or hangs. So the tests are run on the copy as it
is first: by one that fails there nothing can be told.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Literal

from .table import ROOT, Mutant

LIMIT = 120.0  # seconds for the tests of one mutant
WANTED = 0.9  # the share that is to be caught

OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=line")
_PASSED, _FAILED = 0, 1  # pytest's exit codes; any other says that the tests were not run

Verdict = Literal["caught", "hung", "survived", "broken"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one mutant; `by` is the test that noticed, or pytest's complaint."""

    mutant: Mutant
    verdict: Verdict
    by: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        return self.verdict in ("caught", "hung")


class RedBefore(Exception):  # says what is so
    """Tests that the table names fail without any mutant."""


@contextmanager
def copied_source() -> Iterator[Path]:
    """A folder with a copy of `src`, compiled so that a changed file is noticed by its contents."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        yield copy


def check_green(source: Path, table: Sequence[Mutant]) -> None:
    """Refuse to judge by tests that fail on the source as it is."""
    where = _python(source, "-c", "import wesichain; print(wesichain.__file__)").stdout.strip()
    if not Path(where).is_relative_to(source):
        raise RedBefore(f"the tests would import {where}, not the copy in {source}")
    tests = list(dict.fromkeys(test for mutant in table for test in mutant.tests))
    done = _python(source, "-m", "pytest", *OPTIONS, *tests)
    if done.returncode != _PASSED:
        raise RedBefore("tests fail without any mutant:\n" + done.stdout[-4_000:] + done.stderr[-2_000:])


def judge(source: Path, mutant: Mutant) -> Result:
    """Plant the mutant, run its tests, and restore the file."""
    path = source / "wesichain" / mutant.file
    text = path.read_text(encoding="utf-8")
    started = time.monotonic()
    path.write_text(mutant.planted_in(text), encoding="utf-8")
    try:
        verdict, by = _verdict(source, mutant)
    finally:
        path.write_text(text, encoding="utf-8")
    return Result(mutant, verdict, by, time.monotonic() - started)


def _verdict(source: Path, mutant: Mutant) -> tuple[Verdict, str]:
    try:
        done = _python(source, "-m", "pytest", "-x", *OPTIONS, *mutant.tests, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "hung", f"after {LIMIT:g} s"
    return verdict_of(done.returncode, done.stdout + done.stderr)


def verdict_of(status: int | None, printed: str) -> tuple[Verdict, str]:
    """What pytest's exit status and output say of a mutant; the status is None where a limit ended it."""
    if status is None:
        return "hung", "a limit ended it"
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if status == _PASSED:
        return "survived", ""
    if status == _FAILED and failed:
        return "caught", failed[0].split(" ")[1]
    return "broken", printed[-500:]  # it does not even load: that proves nothing


def _python(source: Path, *args: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(source), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *args],
        cwd=ROOT,
        env=env,
        timeout=timeout,
        check=False,
        capture_output=True,
        text=True,
    )


def judge_all(table: Sequence[Mutant], tell: Callable[[Result], None]) -> list[Result]:
    """Judge every mutant of a table, one after the other."""
    results: list[Result] = []
    with copied_source() as source:
        check_green(source, table)
        for mutant in table:
            results.append(judge(source, mutant))
            tell(results[-1])
    return results


def row_of(result: Result) -> str:
    """A result as a line of the printed table."""
    mutant = result.mutant
    by = result.by.rpartition("::")[2] or result.by
    return f"{result.verdict:9}{result.seconds:6.1f}s  {mutant.file:28}{mutant.name}  [{by[:90]}]"


def is_enough(results: Sequence[Result]) -> bool:
    """Whether so many were caught as are wanted, and each could be judged."""
    caught = sum(result.is_caught for result in results)
    return bool(results) and caught >= WANTED * len(results) and not _broken(results)


def _broken(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.verdict == "broken"]
