"""The entry point: a user's mistake is one line, Ctrl-C is status 130, and no traceback for either."""

from __future__ import annotations

import sys
from typing import NoReturn

from wesichain.core.internal import home_folder
from wesichain.errors import MissingDependencyError, WesichainError
from wesichain.trace import neutralise, redact

_NEEDED = ("typer", "rich")


def main() -> None:
    sys.path.insert(0, "")  # agents and tools of the folder that the command is given in
    try:
        _app()
    except KeyboardInterrupt:
        sys.exit(130)
    except WesichainError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone: there is nobody to tell
        sys.exit(0)
    except OSError as error:  # a file or a folder that cannot be used
        where = str(error.filename or "")
        hint = "; $WESICHAIN_HOME says where runs are kept" if where.startswith(str(home_folder())) else ""
        _fail(f"{where}{': ' if where else ''}{error.strerror or error}{hint}")


def _fail(message: str) -> NoReturn:
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
    except WesichainError as error:  # whatever command it comes from: a mistake of the user's
        print_line("[red]error:[/red] {}", str(error))
        sys.exit(WRONG_USE)
