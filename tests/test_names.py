"""Names use the words of the field: no module, class or function has a word that only this project used so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "wesichain"

# What such a name should say instead: emits, records, receives, returns, stores, the status, a noun for what it holds.
WORDS = frozenset(
    {
        *("told", "tell", "said", "heard", "hear", "held", "shown", "taken"),
        *("standing", "present", "seen", "site", "showing", "asking", "telling", "found"),
        *("made", "whole", "growing", "handing", "wrapping", "performing", "conduct", "stretch"),
        *("stretches", "doubt", "leaks", "later", "carry", "deed", "sure", "quiet"),
        *("spare", "retell", "given"),
    }
)
# Words of the field that contain one of these, and names that users write.
ALLOWED = frozenset({"AdviceShown", "call_later", "test_"})
_DEFINED = re.compile(r"^\s*(?:class|(?:async )?def) (\w+)", re.MULTILINE)  # to parse all files takes seconds


def parts_of(name: str) -> frozenset[str]:
    return frozenset(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def is_private_english(name: str) -> bool:
    return not name.startswith(tuple(ALLOWED)) and bool(parts_of(name) & WORDS)


def names_in(path: Path) -> Iterator[str]:
    yield path.stem
    yield from _DEFINED.findall(path.read_text(encoding="utf-8"))


def offenders() -> set[str]:
    """Each as `path name`; a folder as its path alone."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        found |= {f"{place} {name}" for name in names_in(path) if is_private_english(name)}
        found |= {str(folder) for folder in place.parents if is_private_english(folder.name)}
    return found


def test_no_name_uses_a_word_of_our_own() -> None:
    assert offenders() == set(), "name these in the words of the field"


def test_words_are_looked_for_inside_names() -> None:
    assert all(map(is_private_english, ("told_since", "ShownContext", "_given", "retell_spare", "HeldLog")))
    assert not any(map(is_private_english, ("foundation", "emit", "AdviceShown", "resettle", "sites_of")))
