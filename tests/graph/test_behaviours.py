"""Every behaviour of the corpus has a test here, or a reason."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.conftest import corpora
from tests.graph.behaviours import REASONS

FOLDER = Path(__file__).parent


def marked() -> dict[str, list[str]]:
    """The tests that hold each behaviour."""
    found: dict[str, list[str]] = {}
    for path in [*FOLDER.glob("test_*.py"), FOLDER / "checkpointer_contract.py"]:
        if path.stem == "test_postgres":
            continue  # holds nothing that the contract does not
        module = importlib.import_module(f"tests.graph.{path.stem}")
        members = [member for _, member in inspect.getmembers(module)]
        for owner in [module, *[member for member in members if inspect.isclass(member)]]:
            for name, member in inspect.getmembers(owner, inspect.isfunction):
                for name_of in getattr(member, "behaviours", ()):
                    found.setdefault(name_of, []).append(f"{path.stem}::{name}")
    return found


def test_every_behaviour_is_held_or_has_a_reason() -> None:
    path = corpora() / "graph_behaviours.md"
    if not path.is_file():
        pytest.skip("the corpus of graph behaviours is absent")
    ids = re.findall(r"^([GK]\d+) ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(ids) > 90
    held = marked()
    assert [one for one in ids if one not in held and one not in REASONS] == []
    assert [one for one in REASONS if one in held] == [], "a reason beside a test"
    assert [one for one in (*held, *REASONS) if one not in ids] == [], "no such behaviour"
