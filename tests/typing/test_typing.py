"""The type checkers agree with us: line by line, what must fail fails and what must pass passes.

One test for each checker: in a test for each file, every worker that had one of them would run the checker over all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.types
HERE = Path(__file__).parent
FILES = sorted([*(HERE / "must_fail").glob("*.py"), *(HERE / "must_pass").glob("*.py")])
BIN = Path(sys.executable).parent


def _place(path: Path | str) -> str:
    """A file by its folder and name: both folders may have one of that name."""
    return "/".join(Path(path).parts[-2:])


def _marked() -> dict[str, set[int]]:
    """The lines that are marked as errors, by file."""
    found: dict[str, set[int]] = {}
    for path in FILES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.endswith("# error"):
                found.setdefault(_place(path), set()).add(number)
    assert found
    return found


def test_mypy_complains_of_the_marked_lines_alone() -> None:
    # A cache of its own: with other options than those of `make types`, each would undo the other's.
    options = ["--strict", "--no-error-summary", "--config-file", "", "--python-version", "3.11"]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "typing")]
    command = [str(BIN / "mypy"), *options, *cache, *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
    errors: dict[str, set[int]] = {}
    for line in done.stdout.splitlines():
        if found := re.match(r"(.+?):(\d+): error", line):
            errors.setdefault(_place(found[1]), set()).add(int(found[2]))
    assert errors == _marked()


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_source_is_right_on_every_system(system: str) -> None:
    """Without what is never imported on Windows: the processes of isolated tools."""
    forked = ["--exclude", "tools/isolated/(fork_server|keeper)"] if system == "win32" else []
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / system)]
    command = [str(BIN / "mypy"), "--platform", system, *cache, *forked, "src"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_pyright_complains_of_the_marked_lines_alone() -> None:
    command = [str(BIN / "basedpyright"), "--outputjson", "--project", str(HERE / "pyrightconfig.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    errors: dict[str, set[int]] = {}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        if item["severity"] == "error":
            errors.setdefault(_place(item["file"]), set()).add(item["range"]["start"]["line"] + 1)
    assert errors == _marked()
