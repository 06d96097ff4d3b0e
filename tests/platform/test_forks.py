"""Forked processes: their limits, their descriptors, and how their end is noticed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

if sys.platform == "win32":
    pytest.skip("nothing is forked there", allow_module_level=True)

import resource

from wesichain.platform import forks


def outcome_of(work: Callable[[], bool]) -> bool:
    """Whether a function returns True in a forked process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_limit_is_lowered_and_never_raised() -> None:
    def limits() -> bool:
        found: list[tuple[int, int]] = []
        for value, extra in ((5, 1), (4, 1), (9, 1)):
            forks.lower_limit(resource.RLIMIT_CPU, value, extra=extra)
            found.append(resource.getrlimit(resource.RLIMIT_CPU))
        return found == [(5, 6), (4, 5), (5, 5)]

    assert outcome_of(limits)


def test_a_process_whose_parent_has_ended_already_ends() -> None:
    def end() -> bool:
        forks.end_with_parent(os.getpid(), at_once=True)  # not the parent
        return False

    assert outcome_of(end)


def test_threads_are_counted_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", refuse)
    assert forks.thread_count() == threading.active_count()


@pytest.mark.parametrize("most", [None, (1 << 63) - 1], ids=["as-it-is", "no-limit"])
def test_all_descriptors_but_one_are_closed(monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    """Also where their number has no limit, as on macOS: counting to it would never end."""
    if most is not None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (256, most))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    os.dup2(opened[0], 900)
    opened.append(900)

    def close() -> bool:
        forks.close_descriptors(keep=opened[2])
        left = [each for each in range(1000) if is_open(each)]
        return left == [0, 1, 2, opened[2]]

    try:
        assert outcome_of(close)
    finally:
        for each in opened:
            os.close(each)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_the_end_of_a_child_is_noticed_while_its_own_child_runs() -> None:
    def notice() -> bool:
        readable, writable = os.pipe()
        ends = forks.ChildEnds()
        child = forks.ForkedChild(os.fork())
        if child.pid == 0:
            if os.fork() == 0:
                signal.pause()  # and keeps the pipe open
            os._exit(3)
        os.close(writable)
        while not child.has_ended():
            assert forks.wait_readable(readable, ends.fileno(), seconds=30.0) == {ends.fileno()}
            ends.clear()
        return child.end() == 3

    def adopt_and_notice() -> bool:
        forks.adopt_orphans()
        try:
            return notice()
        finally:
            forks.kill(forks.descendants(os.getpid()))

    assert outcome_of(adopt_and_notice)


@pytest.mark.parametrize(
    ("signal_number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGXCPU, -signal.SIGXCPU)]
)
def test_a_child_that_a_signal_ends_has_its_negative_number(signal_number: int, code: int) -> None:
    child = forks.ForkedChild(os.fork())
    if child.pid == 0:
        signal.pause()
    os.kill(child.pid, signal_number)
    assert child.end(seconds=60.0) == code
    assert forks.is_out_of_cpu(code) is (signal_number == signal.SIGXCPU)


def test_a_child_that_does_not_end_is_killed() -> None:
    child = forks.ForkedChild(os.fork())
    if child.pid == 0:
        signal.pause()
    assert child.end() == -signal.SIGKILL
    assert child.has_ended()
