"""The blocks of the pages pass pyright in standard mode: `make types` runs it, and so do the slow tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block
from tests.docs.typed import checked, mistakes


@pytest.mark.slow
def test_every_block_is_right_and_a_wrong_one_is_noticed(tmp_path: Path) -> None:
    wrong = Block(DOCS / "README.md", 10, "from wesichain import Agent\n\nAgent(7)\n", "")
    found = mistakes([*checked(), wrong], tmp_path)
    assert [one.partition(": ")[0] for one in found] == ["docs/README.md:13"]
