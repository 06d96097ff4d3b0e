"""Judging many mutants by one process that has collected all tests: a fork for each plants it and runs its tests.

What is loaded already is changed where it is: a function gets the code of the mutant. What runs only while a
module is loaded is not run again, so that a mutant in it survives here.
"""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import NoReturn

import pytest

from .runner import OPTIONS, Result, Verdict
from .table import ROOT, Mutant

CHOSEN = "not slow and not model and not types"
CPU_LIMIT = (
    90  # seconds of one process; on a busy machine a limit by the clock would call much hung that is not
)
WALL_LIMIT = 150.0
_CAUGHT, _CANNOT_BE_PLANTED = 1, 3  # exit codes of a fork
_ALL = "all"  # of the tests have passed


@dataclass(frozen=True, slots=True)
class Sampled:
    """A mutant, and the names of the tests that may notice it, in rounds of a fork each, the likeliest first."""

    mutant: Mutant
    rounds: Sequence[Sequence[str]]


def run_tests(source: Path, folders: Sequence[str], plugin: object) -> None:
    """Run pytest in this process on a copy of the source, which must not be loaded yet."""
    if any(name.partition(".")[0] == "wesichain" for name in sys.modules):
        raise RuntimeError("this process would test the source that it has loaded, not the copy")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(source), str(ROOT)])
    os.environ["WESICHAIN_SEED"] = "1"  # the same cases in every run
    sys.path[:0] = [str(source), str(ROOT)]
    pytest.main([*OPTIONS, "-m", CHOSEN, *folders], plugins=[plugin])


@dataclass(slots=True, eq=False)
class Judge:
    """A plugin for pytest: judges mutants by the tests that were collected, instead of running them."""

    source: Path
    sampled: Iterable[Sampled]
    tell: Callable[[Result], None]
    results: list[Result] = field(default_factory=list[Result])
    _failed: list[str] = field(default_factory=list[str])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for each in self.sampled:
            started = time.monotonic()
            verdict, by = self._judge_in_rounds(each, items)
            self.results.append(Result(each.mutant, verdict, by, time.monotonic() - started))
            self.tell(self.results[-1])
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _judge_in_rounds(self, sampled: Sampled, items: dict[str, pytest.Item]) -> tuple[Verdict, str]:
        verdict: Verdict = "survived"
        by = ""
        for tests in sampled.rounds:
            verdict, by = self._judge(sampled.mutant, [items[name] for name in tests if name in items])
            if verdict != "survived":
                break
        return verdict, by

    def _judge(self, mutant: Mutant, items: list[pytest.Item]) -> tuple[Verdict, str]:
        """By its tests, less those that fail without it too."""
        while items:
            with _planted_on_disk(self.source, mutant) as change:
                verdict, by = self._in_fork(items, change)
            if verdict not in ("caught", "hung"):
                return verdict, by
            red = [item for item in items if item.nodeid == by] or items
            if self._in_fork(red, None)[0] == "survived":
                return verdict, by
            items = [item for item in items if item not in red]
        return "survived", "no test runs it"

    def _in_fork(self, items: list[pytest.Item], change: _Change | None) -> tuple[Verdict, str]:
        with tempfile.TemporaryFile() as report:
            pid = os.fork()
            if pid == 0:
                self._run(items, change, report.fileno())
            status = _wait(pid)
            report.seek(0)
            words = report.read().decode()
        if status is None:
            return "hung", "a limit ended it"
        if status == _CAUGHT:
            return "caught", words
        return (
            ("survived", "") if words == _ALL else ("broken", words[-500:] or f"the fork ended with {status}")
        )

    def _run(self, items: list[pytest.Item], change: _Change | None, report: int) -> NoReturn:
        """In the child: run the tests until one fails, and end, whatever happens."""
        status = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))
            os.environ.pop("WESICHAIN_WARM", None)  # it has loaded the source without the mutant
            _silence(items[0].config)
            status = 0 if change is None or change.plant() else _CANNOT_BE_PLANTED
            if status == 0:
                failure = self._first_failure(items)
                os.write(report, (failure or _ALL).encode())
                status = _CAUGHT if failure else 0
        except BaseException:
            os.write(report, traceback.format_exc().encode())
        finally:
            os._exit(status)

    def _first_failure(self, items: list[pytest.Item]) -> str:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                item.session._setupstate.teardown_exact(None)
                return self._failed[0]
        return ""


@dataclass(frozen=True, slots=True)
class _Change:
    """The text of a file before and after."""

    file: str
    old: str
    new: str

    def plant(self) -> bool:
        """Give the functions of the file that are loaded the code of the mutant; False where none could take it."""
        module = self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module not in sys.modules:
            return True  # it will be loaded from the file
        before, after = _codes(self.old, self.file), _codes(self.new, self.file)
        gc.unfreeze()
        planted = 0
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.endswith(self.file):
                places = before.get((each.__code__.co_qualname, each.__code__.co_firstlineno), [])
                # Several of a name in a line are told apart by what they do; pytest may have rewritten one that is alone.
                place = 0 if len(places) == 1 else _index(places, each.__code__)
                codes = after.get((each.__code__.co_qualname, each.__code__.co_firstlineno), [])
                if len(codes) == len(places) > place >= 0 and codes[place] != places[place]:
                    planted += _replace_code(each, codes[place])
        gc.freeze()
        return planted > 0


def _index(codes: list[CodeType], code: CodeType) -> int:
    return codes.index(code) if code in codes else -1


def _replace_code(function: FunctionType, code: CodeType) -> bool:
    try:
        function.__code__ = code
    except ValueError:  # it has other variables of the function around it
        return False
    return True


def _codes(text: str, file: str) -> dict[tuple[str, int], list[CodeType]]:
    """The code of every function of a file by its name and its line."""
    waiting, found = [compile(text, file, "exec", dont_inherit=True)], dict[tuple[str, int], list[CodeType]]()
    while waiting:
        code = waiting.pop()
        found.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


class _planted_on_disk:  # used as a function
    """Plant a mutant in the copy, for programs that load it; restores the file."""

    def __init__(self, source: Path, mutant: Mutant) -> None:
        self._path = source / "wesichain" / mutant.file
        text = self._path.read_text(encoding="utf-8")
        self._change = _Change(f"wesichain/{mutant.file}", text, mutant.planted_in(text))

    def __enter__(self) -> _Change:
        self._path.write_text(self._change.new, encoding="utf-8")
        return self._change

    def __exit__(self, *_: object) -> None:
        self._path.write_text(self._change.old, encoding="utf-8")


def _silence(config: pytest.Config) -> None:
    config.get_terminal_writer()._file = io.StringIO()


def _wait(pid: int) -> int | None:
    """The exit status of the child; None for one that was ended by a limit."""
    deadline = time.monotonic() + WALL_LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            _end_group(pid)
            return None if code < 0 else code
        time.sleep(0.02)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    """End what the tests have left behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
