"""The corpus of replies: what each one says, for tools with and without effects.

`corpus.jsonl` has one reply a line: its dialect, the public parser or report whose form it takes (`own` where
it has none), and what it says: calls, an answer, or nothing that may be acted on (`refused`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("corpus.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_the_corpus_is_large_and_at_least_half_of_it_is_sound() -> None:
    sound = [row for row in ROWS if "refused" not in row["expect"]]
    derived = [row for row in ROWS if row["form"] != "own"]
    assert len(ROWS) >= 300
    assert len({(row["dialect"], row["text"]) for row in ROWS}) == len(ROWS)
    assert min(len(sound), len(derived)) >= len(ROWS) / 2
