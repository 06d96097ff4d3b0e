"""In a fork of the warm process: be the program, as a fresh interpreter would, and end as it does there."""

from __future__ import annotations

import atexit
import contextlib
import io
import linecache
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn, cast


def run_as_main(words: list[str], *, cwd: str, env: dict[str, str], pipes: list[int]) -> NoReturn:
    """Run what the words say (-c CODE, -m MODULE or a script), with these pipes, this folder and environment."""
    take(pipes, encoding=env.get("PYTHONIOENCODING"), by_line=bool(env.get("PYTHONUNBUFFERED")))
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[:0] = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    leave(status_of(words))


# Variables that are followed here; with others that an interpreter reads, a fresh one has to start.
FOLLOWED = {"PYTHONPATH", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def take(pipes: list[int], *, encoding: str | None, by_line: bool) -> None:
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)

    def opened(number: int, mode: str, buffering: int = -1, errors: str | None = None) -> Any:
        return os.fdopen(number, mode, buffering, encoding=encoding, errors=errors, closefd=False)

    system: Any = sys
    system.stdin = system.__stdin__ = opened(0, "r")
    system.stdout = system.__stdout__ = opened(1, "w", 1 if by_line or os.isatty(1) else -1)
    system.stderr = system.__stderr__ = opened(2, "w", 1, "backslashreplace")


def status_of(words: list[str]) -> int:
    """The exit status that the program comes to."""
    try:
        run(words)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException as error:
        error.__traceback__ = theirs(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def theirs(trace: TracebackType | None) -> TracebackType | None:
    """What a traceback says of the program, without our own frames above it."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (
        __file__,
        runpy.__file__,
        "<frozen runpy>",
    ):
        trace = trace.tb_next
    return trace


def run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    main = cast("Any", ModuleType("__main__"))
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        if sys.version_info >= (3, 13):  # tracebacks show the code
            linecache.cache["<string>"] = (len(words[1]), None, words[1].splitlines(True), "<string>")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    else:
        sys.argv = words
        main.__file__ = words[0]
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        with io.open_code(words[0]) as script:
            code = compile(script.read(), words[0], "exec")
        exec(code, vars(main))


def leave(status: int) -> NoReturn:
    """End as a program does, but for taking all its modules apart, which costs more than most programs."""
    cast("Any", threading)._shutdown()
    cast("Any", atexit)._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)
