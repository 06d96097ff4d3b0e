"""The site: it builds without a warning, its lists are up to date, and it explains every option."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, SLOW, TOOLS, Block, blocks_of, name_of
from wesichain import Agent, GraphBuilder, RunFailedError, tool
from wesichain.durable import DurableAgent
from wesichain.errors import ConfigError
from wesichain.learning import Playbook
from wesichain.testing import ScriptedLlm

# What is explained by its type and place alone, or is for tests of the library itself.
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
PLAIN = {"self", "cls", "function"}

EXPLAINED: dict[str, list[Any]] = {
    "Agent": [Agent, Agent.run, Agent.resume, Agent.as_tool],
    "tool": [tool],
    "GraphBuilder": [
        GraphBuilder,
        GraphBuilder.add_node,
        GraphBuilder.add_edge,
        GraphBuilder.add_conditional_edges,
        GraphBuilder.build,
    ],
    "Playbook": [
        Playbook.open,
        Playbook.postgres,
        Playbook.record,
        Playbook.retrieve,
        Playbook.promote,
        Playbook.rollback,
        Playbook.forget,
        Playbook.quarantine,
    ],
    "DurableAgent": [
        DurableAgent,
        DurableAgent.run,
        DurableAgent.enqueue,
        DurableAgent.serve,
        DurableAgent.prune,
    ],
}
# Where a guide to each would stand.
GUIDES = {
    "Agent": [*(DOCS / "howto").glob("*.md"), *(DOCS / "concepts").glob("*.md")],
    "tool": [DOCS / "howto" / "tools.md", DOCS / "howto" / "approvals.md"],
    "GraphBuilder": [DOCS / "howto" / "graphs.md", DOCS / "concepts" / "graph.md"],
    "Playbook": [
        DOCS / "howto" / "learning.md",
        DOCS / "learning-evidence.md",
        DOCS / "concepts" / "playbook.md",
    ],
    "DurableAgent": [DOCS / "durable.md", DOCS / "operating.md", DOCS / "concepts" / "durable.md"],
}


@pytest.fixture(scope="module")
def signatures() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("signatures")


@pytest.fixture(scope="module")
def lists() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("llms")


def is_explained_by_a_guide(option: str, owner: str) -> bool:
    """A sentence, or a row of a table, with the option in code: `option`, `option=...` or `Owner(option=...)`.

    A line inside a block of code is no sentence: that an option is used does not say what it does.
    """
    code = re.compile(rf"`[^`]*(?<![\w.]){re.escape(option)}(?:=[^`]*)?[^`\w]*`|`{re.escape(option)}`")
    for page in GUIDES[owner]:
        prose = re.sub(
            r"^( *)(```|~~~).*?^\1\2", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for sentence in re.split(r"\n\n|\n(?=[-|#])|(?<=[.:;]) ", prose):
            words = re.sub(r"`[^`]*`", " ", sentence).split()
            if code.search(sentence) and len(words) >= 3:
                return True
    return False


@pytest.mark.parametrize("owner", EXPLAINED)
def test_the_site_explains_every_option(owner: str, signatures: Any) -> None:
    """The rule: a guide has a sentence on it, or its docstring has, which the reference then shows beside it."""
    missing = [
        f"{getattr(function, '__qualname__', function)}({option.name}=)"
        for function in EXPLAINED[owner]
        for option in signatures.options_of(function, words_of(function, signatures))
        if option.name not in PLAIN and not option.about and not is_explained_by_a_guide(option.name, owner)
    ]
    assert not missing, missing


def words_of(function: Any, signatures: Any) -> str:
    words: str = signatures.doc_of(function)
    if inspect.isclass(function) and function.__init__.__doc__:
        words += "\n\n" + inspect.cleandoc(function.__init__.__doc__)
    return words


def test_an_option_that_nobody_explains_is_noticed() -> None:
    assert not is_explained_by_a_guide("an_option_that_is_not_there", "Agent")


def test_llms_txt_lists_the_pages_as_they_are(lists: Any) -> None:
    assert (DOCS / "llms.txt").read_text(encoding="utf-8") == lists.render(), "run: python tools/llms.py"


def words_of_others() -> list[Any]:
    """The first column of the guides' tables, where it is one or more keywords: `word=`."""
    return [
        pytest.param(word, ours, id=f"{page.stem}-{word}")
        for page in sorted((DOCS / "migration").glob("*.md"))
        for theirs, ours in ROW.findall(page.read_text(encoding="utf-8"))
        for word in re.findall(r"`(\w+)=`", theirs)
    ]


@pytest.mark.parametrize(("word", "ours"), words_of_others())
def test_an_error_names_our_word_for_the_one_in_a_guide(word: str, ours: str) -> None:
    """Either we have the keyword as well, or the error says which one is meant, and the guide says the same."""
    wrong: Any = {word: 1}
    said = []
    for ask in (
        lambda: Agent(ScriptedLlm(["yes"]), **wrong),
        lambda: Agent(ScriptedLlm(["yes"])).run_sync("?", **wrong),
    ):
        try:
            ask()
        except (ConfigError, RunFailedError, TypeError) as error:
            said.append(str(error))
    meant = [found[1] for text in said if (found := re.search(r"did you mean (\w+)", text))]
    assert meant, said
    assert any(re.search(rf"\b{one}\b", ours) for one in meant), (meant, ours)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "llms.txt").exists()
    assert not [*site.rglob("*.py*")]
    assert "architecture.html" in (site / "concepts" / "machine.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks_of(page) if block.title.endswith(SLOW)],
    ids=lambda b: b.id,
)
def test_a_block_that_needs_more_than_ours_runs_in_the_site_s_environment(
    block: Block, environment: Path, tmp_path: Path
) -> None:
    script = tmp_path / "page.py"
    script.write_text(block.code, encoding="utf-8")
    done = subprocess.run(
        [str(environment), str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_lock_of_the_site_names_no_registry_and_has_a_hash_for_everything() -> None:
    lock = (ROOT / "requirements" / "docs.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert all("--hash=sha256:" in entry for entry in entries if not entry.startswith("#"))
    assert re.search(r"^mkdocs-material==", lock, re.MULTILINE)


def test_pages_are_plain_text() -> None:
    for page in PAGES:
        assert "\t" not in page.read_text(encoding="utf-8"), name_of(page)
    assert sys.version_info >= (3, 11)
