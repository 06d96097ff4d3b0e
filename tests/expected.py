"""Expected outputs, in files beside the tests that compare with them.

`WRITE_EXPECTED=yes pytest TESTS` writes the files of these tests anew: read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path


def check(file: Path, found: str | Iterable[str]) -> None:
    """Compare a text, or lines, with those of a file."""
    lines = found.rstrip("\n").split("\n") if isinstance(found, str) else [*found]
    if os.environ.get("WRITE_EXPECTED"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    expected = file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if lines != expected:
        differences = unified_diff(expected, lines, str(file), "what was found", lineterm="", n=1)
        raise AssertionError("\n".join(differences))


def check_names(folder: Path, names: Iterable[str]) -> None:
    """Compare the files of a folder with the names of what is compared with them."""
    assert {path.stem for path in folder.iterdir()} == {*names}
