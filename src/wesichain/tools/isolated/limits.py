"""Limits: what a worker may use and see, set in the worker before the tool runs."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from .tree import drop_privileges

_MEGABYTE = 1 << 20
_MOST_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # it can be lowered, not raised


def confine_all() -> None:
    """In the keeper, for each of its workers: no more rights than ours, and no core files."""
    drop_privileges()
    _limit(resource.RLIMIT_CORE, 0)


def confine(answer: int, limits: dict[str, int | None]) -> None:
    """In a worker: close every descriptor but the standard ones and the answer's, and set its limits."""
    os.closerange(3, answer)
    os.closerange(answer + 1, _MOST_FILES)
    cpu, memory, files = limits["cpu_seconds"], limits["memory_mb"], limits["file_mb"]
    if cpu is not None:
        _limit(resource.RLIMIT_CPU, cpu, extra=1)
    if files is not None:
        _limit(resource.RLIMIT_FSIZE, files * _MEGABYTE)
    if memory is not None:
        used = _private_bytes()
        which = resource.RLIMIT_DATA if used is not None else resource.RLIMIT_AS
        _limit(which, (used or 0) + memory * _MEGABYTE)


def _limit(which: int, value: int, *, extra: int = 0) -> None:
    """Lower a limit; what the system set lower stays."""
    hard = resource.getrlimit(which)[1]
    top = value + extra if hard == resource.RLIM_INFINITY else min(value + extra, hard)
    resource.setrlimit(which, (min(value, top), top))


def _private_bytes() -> int | None:
    """The bytes that count against RLIMIT_DATA already; None where the system does not say."""
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:  # noqa: PTH123  # paths load much
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) * 1024
    return None
