"""The entry point: a user's mistake is one line, Ctrl-C is status 130, and no traceback for either."""

from __future__ import annotations

import sys

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
        sys.stderr.write(f"error: {neutralise(redact(str(error)))}\n")
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone: there is nobody to tell
        sys.exit(0)


def _app() -> None:
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise MissingDependencyError("the command line", package=error.name, extra="cli") from error
    app()
