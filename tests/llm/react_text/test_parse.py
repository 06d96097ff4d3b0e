"""What a reply says: the corpus of real replies. The rules are rows of `readings.jsonl`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.conftest import corpus, each_origin
from wesichain.core import ToolSpec
from wesichain.errors import ConfigError
from wesichain.llm.react_text import Parsed, parse

DEFAULT = ("react", "react_answer", "react_json")
DIALECTS = ("react_bracket", "alfworld", "xml", "self_ask", "call_syntax", "leaked_native")


def agrees(parsed: Parsed, row: dict[str, Any]) -> bool:
    """Whether a reply was read as the corpus says: kind, tool, arguments and answer."""
    expected = row["expected"]
    if parsed.kind != expected["kind"]:
        return parsed.kind in (row.get("also_ok") or ())
    match parsed.kind:
        case "action":
            return (parsed.tool, parsed.args or {}) == (expected["tool"], expected["args"] or {})
        case "final":
            return bool(parsed.answer == expected["answer"])
        case "malformed":
            return True


def pure(name: str | None) -> list[ToolSpec]:
    """A tool without effects, which takes any arguments; no tool where the reply is no call."""
    schema = {"type": "object", "properties": {"any": {}, "other": {}}}
    return [ToolSpec(name, "Looks.", schema, pure=True)] if name else []


# What a tool that is not pure, or not known, needs and the corpus does not ask for: the reply ends with the
# call, a bare text is one line, and no argument is a placeholder.
STRICTER = ("there is more in the reply than the call", "is text of more than one line", "is a placeholder;")


@each_origin
class TestTheCorpus:
    @pytest.mark.parametrize("form", [*DEFAULT, *DIALECTS])
    def test_every_reply_to_pure_tools_is_read_as_expected(self, form: str, origin: str) -> None:
        rows = [row for row in corpus("react_cases.jsonl", origin) if row["format"] == form]
        read = [
            (row, parse(row["text"], dialect=form, tools=pure(row["expected"].get("tool")))) for row in rows
        ]
        assert rows
        assert [row["id"] for row, parsed in read if not agrees(parsed, row)] == []

    @pytest.mark.parametrize("form", [*DEFAULT, *DIALECTS])
    def test_for_other_tools_only_the_stricter_rules_differ(self, form: str, origin: str) -> None:
        rows = [row for row in corpus("react_cases.jsonl", origin) if row["format"] == form]
        read = [
            (row["id"], parsed) for row in rows if not agrees(parsed := parse(row["text"], dialect=form), row)
        ]
        assert [place for place, parsed in read if not any(rule in parsed.reason for rule in STRICTER)] == []
        assert len(read) <= max(1, 0.04 * len(rows))

    def test_no_reply_is_read_as_what_would_be_a_bug(self, origin: str) -> None:
        bugs = [
            (row["id"], parsed.kind)
            for row in corpus("react_cases.jsonl", origin)
            if (parsed := parse(row["text"])).kind in (row.get("must_not") or ())
        ]
        assert bugs == []

    def test_thoughts_are_kept(self, origin: str) -> None:
        for row in corpus("react_cases.jsonl", origin):
            if row["format"] in DEFAULT and "thought" in row["expected"]:
                assert parse(row["text"]).thought == row["expected"]["thought"], row["id"]

    def test_repair_is_not_avoided_by_calling_everything_malformed(self, origin: str) -> None:
        """`also_ok` allows malformed in many rows: most of what can be repaired must be."""
        rows = [row for row in corpus("react_cases.jsonl", origin) if row["format"] in DEFAULT]
        exact = Counter(
            parse(row["text"], tools=pure(row["expected"].get("tool"))).kind == row["expected"]["kind"]
            for row in rows
        )
        assert exact[True] / len(rows) > 0.95


def test_an_unknown_dialect_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ConfigError, match="unknown dialect 'klingon'; use one of react, "):
        parse("x", dialect="klingon")
    assert parse(None) == Parsed("malformed", reason="there is no reply")
