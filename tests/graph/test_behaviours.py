"""Every behaviour of the corpus has a test here, or a reason for having none."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.agent.test_behaviours import numbered
from tests.conftest import ORIGINS, OUTSIDE, corpora
from tests.graph.behaviours import REASONS

FOLDER = Path(__file__).parent


def marked() -> dict[str, list[str]]:
    """The tests of each behaviour."""
    found: dict[str, list[str]] = {}
    for path in [*FOLDER.glob("test_*.py"), FOLDER / "checkpointer_contract.py"]:
        if path.stem == "test_postgres":
            continue  # tests nothing beyond the contract
        module = importlib.import_module(f"tests.graph.{path.stem}")
        members = [member for _, member in inspect.getmembers(module)]
        for owner in [module, *[member for member in members if inspect.isclass(member)]]:
            for name, member in inspect.getmembers(owner, inspect.isfunction):
                for name_of in getattr(member, "behaviours", ()):
                    found.setdefault(name_of, []).append(f"{path.stem}::{name}")
    return found


# The numbers of the corpus, so that none can be missed if the corpus is absent.
LISTED = numbered(
    "G",
    *(range(1, 18), range(20, 39), range(40, 51), range(60, 71), range(80, 96)),
    *(range(100, 106), range(110, 116)),
) | numbered("K", range(1, 17))


def test_every_behaviour_is_held_or_has_a_reason() -> None:
    held = marked()
    assert held.keys() | REASONS.keys() == LISTED
    assert not held.keys() & REASONS.keys(), "a reason beside a test"


@pytest.mark.skipif(OUTSIDE not in ORIGINS, reason="the corpus has only LISTED, which is tested above")
def test_the_numbers_are_those_of_the_corpus() -> None:
    page = (corpora() / "graph_behaviours.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^([GK]\d+) ", page, flags=re.MULTILINE)) == LISTED
