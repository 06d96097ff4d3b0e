"""Forking: a fork that costs little, where a process has one thread and nobody needs to hear of it.

`os.fork` runs in the child what modules have registered there: new locks for `threading` and `logging`, a
new seed for `random`. In a child that lives for a millisecond, the memory that this touches, and so copies,
costs more than the fork. (Python 3.11 on Linux: 3.7 ms of CPU in a worker with it, 2.7 ms without.) A keeper
has one thread, which holds no lock, and keeps no threads or ids that a child would have to forget; so the C
library's fork is enough. Where a tool's own modules have registered anything, it is `os.fork` again.

The rest is memory: what there is, and what is touched. A bare fork, exit and wait of an interpreter take
0.6 ms of CPU with 5 MB, 1.5 ms with the 14 MB of our packages and asyncio, 1.8 ms with the 21 MB of
pydantic too (aarch64, Linux 6.18, a busy machine), and every page that keeper or worker touch another 2 to
4 us. Hence a keeper loads no more than its tool needs, and a call touches 200 pages, where it touched 390.
So a call of a function in a bare module came down from 5.2 ms to 2.3, of one that is decorated in its
module to 3.3, of one that takes and gives models from 10.7 to 5.9 (the same machine). Large pages were
tried twice. Where the C library allocates for Python they take a third off a bare fork, and make tools that
allocate a lot a fifth slower; with Python's own memory in one piece, collapsed by `madvise`, they take as
much off a bare fork, and nothing off a whole call that could be told from chance: not done.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from .tree import IS_LINUX

_libc_fork: Callable[[], int] | None = ctypes.PyDLL(None).fork if IS_LINUX else None  # it keeps the lock
_registered: list[Any] = []  # what was registered since `watch`


def watch() -> None:
    """From now on, notice what is registered for the child of a fork, but by Python's modules and ours."""
    register: Any = os.register_at_fork

    def noticed(**functions: Callable[..., Any] | None) -> None:
        by = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]  # pyright: ignore[reportPrivateUsage]  # there is no other
        if by != "wesichain" and by not in sys.stdlib_module_names:
            _registered.append(functions)
        register(**functions)

    setattr(os, "register_at_fork", noticed)  # noqa: B010  # its keywords are known to it alone


def fork() -> int:
    """As `os.fork`, for a process that has one thread."""
    if _libc_fork is None or _registered:
        return os.fork()
    if "random" in sys.modules:
        sys.modules[
            "random"
        ].seed()  # here, where it copies nothing: otherwise each child would draw the same
    pid = _libc_fork()
    if pid < 0:
        raise OSError("the system lets no more processes be made")
    return pid
