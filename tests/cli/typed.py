"""Commands that the product prints, and a shell that they are typed into, as they are, in another folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.cli.conftest import Done
from tests.warm import python

# In quotes, or to the end of the line. `cd FOLDER && ` before a command is a part of it.
_PRINTED = re.compile(r"(?:(?<=')|(?<=`)|\b)(?:cd [^\n]+? && )?wesichain (?=[a-z-])[^\n]*")


def printed(output: str) -> list[str]:
    """The commands in an output, each as it stands there."""
    return [_unquoted(output, found) for found in _PRINTED.finditer(output)]


def _unquoted(output: str, found: re.Match[str]) -> str:
    before = output[found.start() - 1 : found.start()]
    return found[0].partition(before)[0] if before in ("'", "`") and before else found[0].rstrip()


class Shell:
    """A shell in a folder of its own, which has the command `wesichain`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "elsewhere"
        self.folder.mkdir()
        program = folder / "bin" / "wesichain"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(python())} -m wesichain "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self._path = program.parent

    def type(self, command: str, *, stdin: str = "", **variables: str) -> Done:
        """Type a command unchanged."""
        process = self.start(command, **variables)
        out, err = process.communicate(stdin, timeout=120)
        return Done(process.returncode, out, err)

    def start(self, command: str, **variables: str) -> subprocess.Popen[str]:
        """Type a command that goes on until it is ended."""
        path = f"{self._path}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}" if " && " not in command else command],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "PATH": path, **variables},
        )
