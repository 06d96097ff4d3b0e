"""Marks and scores: read again when their file has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wesichain.core import Usage, to_json
from wesichain.evals import Result
from wesichain.web.marks import Mark, Marks, Scores


def test_a_mark_is_read_again_when_its_file_has_changed(tmp_path: Path) -> None:
    mine, others = Marks(tmp_path / "labels.jsonl"), Marks(tmp_path / "labels.jsonl")
    assert mine.all() == {}
    mine.put(Mark("a", good=True, why="well done"))
    assert others.of("a") == Mark("a", good=True, why="well done")
    others.put(Mark("a", good=False))
    others.put(Mark("b", good=True))
    assert mine.all() == {"a": Mark("a", good=False), "b": Mark("b", good=True)}
    assert mine.all() is mine.all()  # an unchanged file is not read again
    with mine.path.open("a") as file:
        file.write("torn")
    mine.remove("a")
    assert others.all() == {"b": Mark("b", good=True)}
    assert (mine.path.stat().st_mode & 0o777) == 0o600


def test_scores_are_read_as_they_come_and_anew_from_another_file(tmp_path: Path) -> None:
    scores = Scores(tmp_path / "scores.jsonl")
    first, second = (Result(f"case {name}", name, 1, "completed", usage=Usage(1, 1)) for name in ("a", "b"))
    assert scores.of("a") is None
    scores.path.write_text(f"{to_json(first)}\nnot ours\n{to_json(second)}\n")
    assert (scores.of("a"), scores.of("b")) == (first, second)
    changed = replace(first, status="failed")
    with scores.path.open("a") as file:
        file.write(f"{to_json(changed)}\n")
    assert scores.of("a") == changed
    scores.path.write_text(f"{to_json(second)}\n")
    assert (scores.of("a"), scores.of("b")) == (None, second)
    scores.path.unlink()
    assert scores.of("b") is None
