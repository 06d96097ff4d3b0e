"""The docs are true: every block of Python in them runs on its own, and every link leads somewhere."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import warm
from tests.conftest import ROOT
from tests.docs.pages import DOCS, NOT_RUN, PAGES, SLOW, Block, anchors_of, blocks_of, links_of, name_of
from tests.docs.tutorial import FOLDER, PRINTS, REPLIES

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
RUN = [block for block in BLOCKS if not block.title.endswith((NOT_RUN, SLOW))]
START = "from tests.docs.block import main; main()"
HARD_STOP = 300.0  # seconds: a block that hangs is an error, whatever the machine does beside


def run(code: str, folder: Path, replies: Sequence[object] = ()) -> tuple[int, str]:
    """The exit status of a block that runs alone, in a process of its own, and what it prints."""
    script = folder / "page.py"
    script.write_text(code, encoding="utf-8")
    return warm.run("-c", START, str(script), json.dumps(replies), cwd=folder, timeout=HARD_STOP)


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.id)
def test_a_block_runs_on_its_own(block: Block, tmp_path: Path) -> None:
    status, printed = run(block.code, tmp_path, REPLIES.get(block.page.name, ()))
    assert status == 0, printed[-2000:]
    if block == blocks_of(block.page)[0]:
        assert PRINTS.get(block.page.name, "") in printed, "a step of the tutorial does what its page says"


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PRINTS))
def test_a_step_of_the_tutorial_runs_with_the_real_model(page: str, tmp_path: Path) -> None:
    """Whatever the model says: a small one is wrong at times, and the page's program copes."""
    pytest.importorskip("xllamacpp")
    for number, block in enumerate(blocks_of(FOLDER / page)):
        script = tmp_path / f"{number}.py"
        script.write_text(block.code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.strip()


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    status, printed = run("from wesichain import Agent\nassert Agent is None", tmp_path)
    assert status == 1
    assert "AssertionError" in printed


def test_blocks_that_are_not_run_are_those_of_others_and_still_python() -> None:
    """A block of ours is run. Only what needs another framework is not, and says whose it is."""
    not_run = [block for block in BLOCKS if block.title.endswith(NOT_RUN)]
    assert {name_of(block.page).rpartition("/")[0] for block in not_run} <= {"docs/migration"}
    for block in not_run:
        tree = ast.parse(block.code)
        assert not any(
            "wesichain" in ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ), f"{block.id}: code of ours is run"


def test_the_links_of_every_page_lead_somewhere() -> None:
    assert [
        f"{name_of(page)}: {link}" for page in PAGES for link in links_of(page) if is_dead(page, link)
    ] == []


def is_dead(page: Path, link: str) -> bool:
    """Whether a link of a page leads to no file, or to no heading of it; links to elsewhere are not followed."""
    if re.match(r"[a-z]+:", link):
        return False
    target, _, anchor = link.partition("#")
    found = (page.parent / target).resolve() if target else page
    return not found.exists() or (bool(anchor) and anchor not in anchors_of(found))


def nav() -> list[str]:
    """The pages that the site's navigation names, in its order."""
    _, _, tree = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    return re.findall(r"^ +- .*?: ([\w./-]+\.md)$", tree, re.MULTILINE)


def test_every_page_is_in_the_navigation_once_and_the_navigation_has_no_other() -> None:
    named = nav()
    assert len(named) == len(set(named)), "a page is named twice"
    made = {"architecture.md", "changelog.md", "contributing.md", "examples.md"}  # by tools/site.py
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)}
    assert set(named) == pages | made


def test_a_page_has_one_title_and_it_comes_first() -> None:
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("# "), name_of(page)


SAID = {
    "flight_booking": ["flight='WN 87' ['WN 87']"],
    "retrieval": ["sources=['mooring', 'office']", "The office by the crane is open from eight to six"],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(example: Path) -> None:
    assert example.read_text(encoding="utf-8").count("\n") <= 60
    status, printed = warm.run(str(example), cwd=ROOT, timeout=HARD_STOP)
    assert status == 0, printed[-2000:]
    assert printed
    for text in SAID.get(example.stem, ()):
        assert text in printed
