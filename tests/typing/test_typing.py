"""The type checkers agree with us: line by line, what must fail fails and what must pass passes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

HERE = Path(__file__).parent
FAILING = sorted((HERE / "must_fail").glob("*.py"))
PASSING = sorted((HERE / "must_pass").glob("*.py"))
BIN = Path(sys.executable).parent


def _place(path: Path | str) -> str:
    """A file by its folder and name: both folders may have one of that name."""
    return "/".join(Path(path).parts[-2:])


def marked(path: Path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


@pytest.fixture(scope="module")
def mypy_errors() -> dict[str, set[int]]:
    files = [str(path) for path in (*FAILING, *PASSING)]
    command = [str(BIN / "mypy"), "--strict", "--no-error-summary", "--config-file", "", "--python-version", "3.11"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False, cwd=ROOT)
    errors: dict[str, set[int]] = {}
    for line in done.stdout.splitlines():
        if found := re.match(r"(.+?):(\d+): error", line):
            errors.setdefault(_place(found[1]), set()).add(int(found[2]))
    assert done.returncode in (0, 1), done.stderr
    return errors


@pytest.fixture(scope="module")
def pyright_errors() -> dict[str, set[int]]:
    done = subprocess.run(
        [str(BIN / "basedpyright"), "--outputjson", "--project", str(HERE / "pyrightconfig.json")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    errors: dict[str, set[int]] = {}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        if item["severity"] == "error":
            errors.setdefault(_place(item["file"]), set()).add(item["range"]["start"]["line"] + 1)
    return errors


@pytest.mark.parametrize("path", [*FAILING, *PASSING], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_mypy_complains_of_the_marked_lines_alone(path: Path, mypy_errors: dict[str, set[int]]) -> None:
    assert mypy_errors.get(_place(path), set()) == marked(path)


@pytest.mark.parametrize("path", [*FAILING, *PASSING], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_pyright_complains_of_the_marked_lines_alone(path: Path, pyright_errors: dict[str, set[int]]) -> None:
    assert pyright_errors.get(_place(path), set()) == marked(path)
