"""The entry point: a user's error is printed in one line, Ctrl-C is exit status 130, without tracebacks."""

from __future__ import annotations

import sys
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from typing import NoReturn

from wesichain import __version__
from wesichain.errors import MissingDependencyError, WesichainError

_NEEDED = ("typer", "rich")


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # without loading the commands
        sys.stdout.write(f"wesichain {__version__}\n")
        sys.exit(0)
    sys.path.insert(0, "")  # agents and tools of the current folder
    stdin: object = sys.stdin
    if isinstance(stdin, TextIOWrapper):
        with suppress(UnsupportedOperation):  # a program that calls this has read from it before
            stdin.reconfigure(errors="replace")  # a pipe may have bytes that are not UTF-8
    try:
        _app()
    except KeyboardInterrupt:
        sys.exit(130)
    except WesichainError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone
        sys.exit(0)
    except OSError as error:  # an unusable file or folder
        from wesichain.core.internal import home_folder

        where = str(error.filename or "")
        hint = "; $WESICHAIN_HOME says where runs are kept" if where.startswith(str(home_folder())) else ""
        _fail(f"{where}{': ' if where else ''}{error.strerror or error}{hint}")


def _fail(message: str) -> NoReturn:
    from wesichain.trace import neutralise, redact

    sys.stderr.write(f"error: {neutralise(redact(message))}\n")
    sys.exit(2)


def _app() -> None:
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise MissingDependencyError("the command line", package=error.name, extra="cli") from error
    from .terminal import WRONG_USE, print_line

    try:
        app()
    except WesichainError as error:  # of any command: an error of the user
        print_line("[red]error:[/red] {}", str(error))
        sys.exit(WRONG_USE)
