"""The docs are true: every block of Python in them compiles and runs, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")

# What a page's blocks may need and should not have to show: a model that needs no key.
PRELUDE = """
import wesichain.agent.models as _models
from wesichain.testing import FunctionLlm as _FunctionLlm
_models._by_name = lambda name: _FunctionLlm(lambda request: "an answer", model=name)
"""


def blocks() -> list[object]:
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if BLOCK.search(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("page", blocks())
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    code = PRELUDE + "\n\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(example: Path) -> None:
    assert example.read_text(encoding="utf-8").count("\n") <= 60
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout
