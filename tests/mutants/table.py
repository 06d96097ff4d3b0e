"""The table of mutants: read from the `.toml` files beside this one, a file for each room."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "wesichain"

_TREES = "tests/agent/test_tree_laws.py::test_a_tree_comes_to_the_same_end_however_it_is_run"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change that breaks one law, and the tests that should notice."""

    name: str  # the law, as it is broken
    file: str  # below src/wesichain
    old: str  # occurs exactly once in the file
    new: str
    tests: tuple[str, ...]  # as pytest takes them

    def planted_in(self, text: str) -> str:
        """The text of the file with the mutant in it."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name!r}: the old text occurs {text.count(self.old)} times in {self.file}, not once; "
                f"write down what stands there now"
            )
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """All of them, room by room."""
    return [mutant for room in sorted(Path(__file__).parent.glob("*.toml")) for mutant in _room(room)]


def _room(path: Path) -> list[Mutant]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [
        Mutant(
            name=row["name"],
            file=row["file"],
            old=row["old"].strip("\n"),
            new=row["new"].strip("\n"),
            tests=(
                *[f"tests/{test}" for test in row.get("tests", ())],
                *[f"{_TREES}[{seed}]" for seed in row.get("trees", ())],
            ),
        )
        for row in rows
    ]
