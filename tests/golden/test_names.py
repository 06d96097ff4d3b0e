"""What is stored keeps its names: `names.json` lists them, and a rename in the code does not touch one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.golden.names import collect

KEPT = Path(__file__).parent / "names.json"


def names_in(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {name for key, part in value.items() for name in names_in(part, f"{path}/{key}")}
    return {f"{path}/{part}" for part in (value if isinstance(value, list) else [value])}


def test_every_stored_name_stands_in_the_file() -> None:
    kept, found = names_in(json.loads(KEPT.read_text(encoding="utf-8"))), names_in(collect())
    assert sorted(kept - found) == [], (
        "stored by earlier versions and not known any more: write a reader for it"
    )
    assert sorted(found - kept) == [], "new: python -m tests.golden.names > tests/golden/names.json"


def test_the_list_would_notice_a_rename() -> None:
    kept = names_in(json.loads(KEPT.read_text(encoding="utf-8")))
    assert {
        "/steps/call # * #",
        "/tags/resume_run/decisions",
        "/tags/durable step/entry",
        "/tables/durable/wesichain_runs/current",
        "/formats/durable/2",
    } <= kept
