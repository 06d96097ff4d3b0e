"""`--forks N`: the tests are collected once, and run in so many forks of the process that has them.

pytest-xdist collects in every process, which for ten thousand tests takes 13 s of CPU time each. A fork begins with
neighbouring files, whose tests share servers, models and a browser; one that is done takes half of what the slowest
has left. One that dies fails the test that it was running, and another takes its place.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn, cast

import pytest

_REQUEST, _ENDED = "request", "ended"


@dataclass(slots=True, eq=False)
class Worker:
    """A fork as its parent sees it: `left` are the numbers of its tests, `sent` those that it has and has not ended."""

    pid: int
    watch: int  # a descriptor that can be read when it has ended
    pipe: Connection
    left: deque[int]
    sent: deque[int] = field(default_factory=deque[int])


class Forks:
    """A plugin for pytest: runs the collected tests in forks."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[Worker] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop says so
        _write_no_file_names(session.config)
        with self._started(session):
            while self._workers:
                for worker in _ready(self._workers):
                    self._receive(session, worker)
                    _stop_if_asked(session)
        return True

    @contextmanager
    def _started(self, session: pytest.Session) -> Generator[None]:
        """Forks, each with its share; none is left behind, nor what it has started."""
        rest = [*range(len(session.items))]
        for count in range(self._count, 0, -1):
            cut = _cut(session, rest, len(rest) // count) if count > 1 else len(rest)
            self._workers.append(self._fork(session, deque(rest[:cut])))
            rest = rest[cut:]
        try:
            yield
        finally:
            for worker in self._workers:
                _end(worker)

    def _fork(self, session: pytest.Session, share: deque[int]) -> Worker:
        pair: tuple[Any, Any] = Pipe()
        ours, theirs = pair
        pid = os.fork()
        if pid == 0:
            for worker in self._workers:
                worker.pipe.close()
                os.close(worker.watch)
            ours.close()
            _run(session, theirs)
        theirs.close()
        return Worker(pid, os.pidfd_open(pid), ours, share)

    def _receive(self, session: pytest.Session, worker: Worker) -> None:
        """A report, or a request for the number of a test (None where none is left); or the fork has ended."""
        try:
            message: Any = worker.pipe.recv() if worker.pipe.poll() else _ENDED
        except (EOFError, OSError):
            message = _ENDED
        if message == _ENDED:
            self._replace(session, worker)
        elif message == _REQUEST:
            with suppress(OSError):  # it ends just now, and will be replaced
                worker.pipe.send(self._next_for(session, worker))
        else:
            _report(session, message)

    def _next_for(self, session: pytest.Session, worker: Worker) -> int | None:
        if len(worker.sent) == 2:  # it has ended the first, and begins the second
            worker.sent.popleft()
        if not worker.left:
            slowest = max(self._workers, key=lambda each: len(each.left))
            left = [*slowest.left]
            cut = _cut(session, left, len(left) // 2)
            slowest.left, worker.left = deque(left[:cut]), deque(left[cut:])
        if not worker.left:
            return None
        worker.sent.append(worker.left.popleft())
        return worker.sent[-1]

    def _replace(self, session: pytest.Session, worker: Worker) -> None:
        """Fail the test that a fork died of, and give what is left of its share to another."""
        self._workers.remove(worker)
        status = _end(worker)
        if status == 0:
            return
        item = session.items[worker.sent.popleft()]
        session.config.hook.pytest_runtest_logreport(
            report=pytest.TestReport(
                nodeid=item.nodeid,
                location=item.location,
                keywords={},
                outcome="failed",
                longrepr=f"its process ended with status {status}",
                when="call",
            )
        )
        self._workers.append(self._fork(session, worker.sent + worker.left))


def _cut(session: pytest.Session, numbers: list[int], wanted: int) -> int:
    """Where to cut a list of tests in two: between two files, as near as can be to the place that is wanted.

    What the tests of one file share would be made twice; so a file is cut only if it is the only one.
    """
    paths = [session.items[number].path for number in numbers]
    between = [place for place in range(1, len(paths)) if paths[place - 1] != paths[place]]
    return min(between, key=lambda place: abs(place - wanted), default=wanted)


def _ready(workers: list[Worker]) -> list[Worker]:
    """Those that have sent something, or have ended: a process below one may hold its pipe open."""
    found = wait([each for worker in workers for each in (worker.pipe, worker.watch)])
    return [worker for worker in workers if worker.pipe in found or worker.watch in found]


def _write_no_file_names(config: pytest.Config) -> None:
    """They would change with every letter, since several files are run at once."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reporter.showfspath = False


def _report(session: pytest.Session, message: dict[str, Any]) -> None:
    hook = session.config.hook
    report = cast(
        "pytest.TestReport", hook.pytest_report_from_serializable(config=session.config, data=message)
    )
    hook.pytest_runtest_logreport(report=report)
    if report.when == "teardown":
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _stop_if_asked(session: pytest.Session) -> None:
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def _end(worker: Worker) -> int:
    """End a fork and what it has left behind; says how it had ended."""
    worker.pipe.close()
    os.close(worker.watch)
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])


def _run(session: pytest.Session, pipe: Connection) -> NoReturn:
    """In the fork: run what the parent asks for, and end, whatever happens."""
    status = 70
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _capture_anew(session.config)
        session.config.pluginmanager.register(_Sender(session.config, pipe))
        _run_tests(session, pipe)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _run_tests(session: pytest.Session, pipe: Connection) -> None:
    """One test after the other, each with the one that follows: what both need is not made twice."""
    item = _ask(session, pipe)
    while item is not None:
        following = _ask(session, pipe)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def _ask(session: pytest.Session, pipe: Connection) -> pytest.Item | None:
    pipe.send(_REQUEST)
    number: int | None = pipe.recv()
    return None if number is None else session.items[number]


def _capture_anew(config: pytest.Config) -> None:
    """What a test prints goes to a file of this process, not to one that all forks share."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()


class _Sender:
    """A plugin for pytest in a fork: sends every report to the parent, and shows none."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._pipe.send(hook.pytest_report_to_serializable(config=self._config, report=report))
