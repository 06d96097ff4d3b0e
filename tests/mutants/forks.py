"""Judging a mutant in a fork of this process, which has loaded the packages of others: half of what a judgement takes."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest

from .runner import OPTIONS, Result, Verdict, verdict_of
from .table import ROOT, Mutant

CPU_LIMIT = (
    120  # seconds of one process; on a busy machine a limit by the clock would call much hung that is not
)
WALL_LIMIT = 900.0
# Loaded before the first fork, where they are installed. None of them loads anything of ours.
PACKAGES = (
    "anthropic",
    "hypothesis",
    "mcp",
    "numpy",
    "openai",
    "pydantic",
    "sqlalchemy",
    "starlette.testclient",
)


def load_packages() -> None:
    """Load what every judgement would load again."""
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    if any(name.partition(".")[0] == "wesichain" for name in sys.modules):
        raise RuntimeError("a fork would test the source that is loaded here already, not the mutant")


def judge_in_fork(source: Path, mutant: Mutant, *, is_quick: bool) -> Result:
    """Plant the mutant, run its tests in a fork, perhaps as a quick run does, and restore the file."""
    path = source / "wesichain" / mutant.file
    text = path.read_text(encoding="utf-8")
    started = time.monotonic()
    path.write_text(mutant.planted_in(text), encoding="utf-8")
    try:
        verdict, by = _verdict(source, mutant.tests, is_quick=is_quick)
    finally:
        path.write_text(text, encoding="utf-8")
    return Result(mutant, verdict, by, time.monotonic() - started)


def is_green(source: Path, tests: Sequence[str], *, is_quick: bool) -> bool:
    """Whether the tests pass on the source as it is now."""
    return _verdict(source, tests, is_quick=is_quick)[0] == "survived"


def run_in_fork(source: Path, tests: Sequence[str], plugin: object, *, seconds: int) -> str:
    """Run tests on a copy of the source with a plugin, within so much CPU time; returns pytest's last line."""
    with tempfile.TemporaryFile() as printed:
        pid = os.fork()
        if pid == 0:
            _run(source, tests, printed.fileno(), is_quick=False, plugins=[plugin], seconds=seconds)
        _wait(pid)
        printed.seek(0)
        return printed.read().decode(errors="replace").strip().rpartition("\n")[2]


def _verdict(source: Path, tests: Sequence[str], *, is_quick: bool) -> tuple[Verdict, str]:
    with tempfile.TemporaryFile() as printed:
        pid = os.fork()
        if pid == 0:
            _run(source, ["-x", *tests], printed.fileno(), is_quick=is_quick)
        status = _wait(pid)
        printed.seek(0)
        return verdict_of(status, printed.read().decode(errors="replace"))


def _run(
    source: Path,
    tests: Sequence[str],
    printed: int,
    *,
    is_quick: bool,
    plugins: Sequence[object] = (),
    seconds: int = CPU_LIMIT,
) -> None:
    """In the child: run the tests and end, whatever happens."""
    status = 70
    try:
        os.setsid()
        for number in (1, 2):
            os.dup2(printed, number)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(source), str(ROOT)])
        os.environ["WESICHAIN_SEED"] = "1"  # the same cases as on record
        os.environ["WESICHAIN_QUICK"] = "1" if is_quick else ""
        sys.dont_write_bytecode = (
            False  # tests need no second compiling; the copy is compared by its contents
        )
        sys.path[:0] = [str(source), str(ROOT)]
        os.chdir(ROOT)
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # for plugins that are loaded already
        status = int(pytest.main([*OPTIONS, *quiet, *tests], plugins=list(plugins)))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int) -> int | None:
    """The exit status of the child; None for one that was ended by a limit."""
    deadline = time.monotonic() + WALL_LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            _end_group(pid)
            return None if code < 0 else code
        time.sleep(0.05)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    """End what the tests have left behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
