"""Run as `python -m tests.docs.typed`: every block of Python on a page of ours passes pyright in standard mode.

Blocks are checked as they stand, each as a program of its own, in one process; one of another framework, which is
not run here, is left out. Prints what is wrong, with the page and the line in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.docs.pages import NOT_RUN, PAGES, SLOW, Block, blocks_of, name_of

PYRIGHT = Path(sys.executable).parent / "basedpyright"


def checked() -> list[Block]:
    """The blocks that need nothing but what the tests have."""
    return [block for page in PAGES for block in blocks_of(page) if not block.title.endswith((NOT_RUN, SLOW))]


def mistakes(blocks: list[Block], folder: Path) -> list[str]:
    """What pyright says about the blocks, as PAGE:LINE: MESSAGE; `folder` is theirs."""
    by_file: dict[str, Block] = {}
    for number, block in enumerate(blocks):
        file = folder / f"block_{number:03d}.py"
        file.write_text(block.code, encoding="utf-8")
        by_file[file.name] = block
    options = {
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
        "include": [str(folder)],
        "reportMissingImports": "information",  # of what a page says to install first
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    done = subprocess.run(
        [str(PYRIGHT), "--project", str(folder), "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return sorted(
        f"{name_of(block.page)}:{block.line + one['range']['start']['line'] + 1}: {one['message'].splitlines()[0]}"
        for one in found
        if one["severity"] == "error" and (block := by_file[Path(one["file"]).name])
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        wrong = mistakes(checked(), Path(name))
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))
