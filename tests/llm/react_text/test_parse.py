"""What a reply says: the corpus of real replies, and the rules, one row each."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.conftest import OUTSIDE, corpus, each_origin
from tests.warm import python
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
    """A tool without effects, which takes any arguments."""
    schema = {"type": "object", "properties": {"any": {}, "other": {}}}
    return [ToolSpec(name or "none", "Looks.", schema, pure=True)]


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

    def test_the_reply_that_hangs_backtracking_parsers_returns_at_once(self, origin: str) -> None:
        rows = {row["id"]: row["text"] for row in corpus("react_cases.jsonl", origin)}
        text = rows["lc-react-04-redos" if origin == OUTSIDE else "own-redos"]
        code = (
            "import json, sys; from wesichain.llm.react_text import parse; "
            "print(parse(json.load(sys.stdin)).kind)"
        )
        done = subprocess.run(
            [*python(), "-c", code],
            input=json.dumps(text),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert done.stdout.strip() == parse(text).kind == "malformed"


ACTION = "Thought: look\nAction: search\nAction Input: "


def action(args: Any, tool: str = "search") -> tuple[str, Any, Any]:
    return ("action", tool, args)


def answer(text: str) -> tuple[str, Any, Any]:
    return ("final", text, None)


MALFORMED = ("malformed", None, None)

RULES = [
    # whose word counts
    pytest.param(f"{ACTION}a\nAction: rm\nAction Input: b", MALFORMED, id="two actions are no call"),
    pytest.param(f"{ACTION}a\nAction Input: b", MALFORMED, id="nor are two inputs"),
    pytest.param("Action: a\nAction: b\nAction Input: {}", MALFORMED, id="nor two actions with one input"),
    pytest.param(
        f"{ACTION}a\nObservation: 1\nFinal Answer: 1", action("a"), id="an invented result is ignored"
    ),
    pytest.param(
        f"{ACTION}a\nThought: so\nFinal Answer: 1", MALFORMED, id="action and answer at once is neither"
    ),
    pytest.param(
        "Final Answer: 1\nAction: a\nAction Input: b", answer("1"), id="an answer before an action is final"
    ),
    pytest.param(
        "Observation: 3\nFinal Answer: 3", answer("3"), id="an observation before any action is a thought"
    ),
    pytest.param("Final Answer: 1\nThought: good", answer("1"), id="a thought ends the answer"),
    pytest.param("Final Answer: 1\nFinal Answer: 2", answer("1"), id="the first answer wins"),
    pytest.param(
        "Final Answer: do\nAction: rest", answer("do\nAction: rest"), id="an answer may speak of an action"
    ),
    pytest.param("Final Answer:  \n ", MALFORMED, id="an empty answer is none"),
    pytest.param(
        '<tool_call>{"name": "a", "arguments": {}}</tool_call>\nAction: b\nAction Input: {}',
        MALFORMED,
        id="nor a native call and an action",
    ),
    # channels
    pytest.param(
        "<|channel|>commentary to=functions.a<|message|>{} <think>x<|call|>",
        MALFORMED,
        id="a call with reasoning that never ends is none",
    ),
    pytest.param(
        "<|channel|>analysis<|message|>hm <think><|end|>\nAction: a\nAction Input: {}",
        MALFORMED,
        id="what follows a message and is none is no reply",
    ),
    pytest.param(
        "x<|call|><|start|>assistant<|channel|>commentary to=functions.a<|message|>{}<|call|>",
        MALFORMED,
        id="a header within a line is text",
    ),
    # markers
    pytest.param("I act. Action: a\nAction Input: b", MALFORMED, id="a marker stands at the start of a line"),
    pytest.param("| Action: a\n| Action Input: b", MALFORMED, id="a quoted marker is no marker"),
    pytest.param("Action\uff1aa\nAction Input\uff1ab", action("b", "a"), id="a full-width colon is a colon"),
    pytest.param(
        "**Action:** a\r\n**Action Input:** b\r\n", action("b", "a"), id="markdown and CRLF are noise"
    ),
    pytest.param("Action 2: a\nAction 2 Input: b", action("b", "a"), id="markers may be numbered"),
    pytest.param("Action: a\nAction Input: b\nObs", action("b", "a"), id="half a stop word is dropped"),
    pytest.param("Final Answer: 4<|im_end|></s>", answer("4"), id="end tokens are dropped"),
    pytest.param(
        "<think>\nAction: no\n</think>\nFinal Answer: 4", answer("4"), id="thinking aloud is not the reply"
    ),
    pytest.param("<think>\nFinal Answer: 4", MALFORMED, id="thinking that never ends has no reply"),
    pytest.param(
        'I see <think>{maybe}\n{"action": "a", "action_input": {}}',
        MALFORMED,
        id="nor has thinking within a line, if a call follows",
    ),
    # fences
    pytest.param(
        f"{ACTION}\n```\nFinal Answer: x\nObservation: y\n```",
        action("```\nFinal Answer: x\nObservation: y\n```"),
        id="a fence in the input hides markers, and delimits it",
    ),
    pytest.param(
        f"{ACTION}\n```\na\nObservation: y", MALFORMED, id="a fence that never closes delimits nothing"
    ),
    pytest.param(
        "```\nThought: t\nFinal Answer: x\n```\nBye", answer("x"), id="a fence around all is wrapping"
    ),
    pytest.param(
        "Thought: like\n```python\nAction: a\nAction Input: b\n```\nFinal Answer: x",
        answer("x"),
        id="code in a thought is code",
    ),
    pytest.param(f"{ACTION}```json\n" + '{"q": 1}\n```\n', action({"q": 1}), id="JSON in a fence is JSON"),
    # the tool's name
    pytest.param("Action: [search]\nAction Input: x", action("x"), id="brackets around a name are noise"),
    pytest.param("Action: `search`\nAction Input: x", action("x"), id="backticks around a name are noise"),
    pytest.param("Action: none\nAction Input: x", MALFORMED, id="none is no tool"),
    pytest.param(f"Action: {'a' * 201}\nAction Input: x", MALFORMED, id="an essay is no name"),
    pytest.param('Action: search({"q": 1})', action({"q": 1}), id="a call with JSON is a call"),
    pytest.param("Action: search(q=1)", MALFORMED, id="a call in another dialect is not guessed at"),
    # the input
    pytest.param(f'{ACTION}"a \\"b\\""', action('a "b"'), id="a quoted string is unquoted"),
    pytest.param(f'{ACTION}"a" or "b"', action('"a" or "b"'), id="two quoted strings are text"),
    pytest.param(f"{ACTION}'a'", action("a"), id="single quotes are quotes"),
    pytest.param(f"{ACTION}'a' or 'b'", action("'a' or 'b'"), id="apostrophes inside are text"),
    pytest.param(f"{ACTION}5", action(5), id="a number is a number"),
    pytest.param(f"{ACTION}007", action("007"), id="what only looks like a number is text"),
    pytest.param(f"{ACTION}NaN", action("NaN"), id="NaN alone is text"),
    pytest.param(f"{ACTION}{{a set}}", action("{a set}"), id="prose in braces is text"),
    pytest.param(f"{ACTION}{{a set", MALFORMED, id="a brace that never closes is unreadable"),
    pytest.param(f"{ACTION}[1, 2,]", action([1, 2]), id="an array is mended"),
    pytest.param(f'{ACTION}["a"].pop()', MALFORMED, id="an array is not cut out of more"),
    pytest.param(f'{ACTION}Tool({{"a": 1}})', action({"a": 1}), id="a class around an object is noise"),
    pytest.param(f'{ACTION}a Tool({{"a": 1}})', action('a Tool({"a": 1})'), id="but not in the middle"),
    pytest.param(f"{ACTION}len([1, 2])", action("len([1, 2])"), id="a call in lower case is code"),
    pytest.param(
        f"{ACTION}```python\n[1]\n```", action("```python\n[1]\n```"), id="a fence that says python is code"
    ),
    pytest.param(f"{ACTION}[1] is right", action("[1] is right"), id="a footnote is text"),
    pytest.param(f'{ACTION}{{"a": 1}} as said', MALFORMED, id="prose after an object is too much"),
    pytest.param(f"{ACTION}a\nb", MALFORMED, id="a bare text is one line"),
    pytest.param(f'{ACTION}{{"a": "<id>"}}', MALFORMED, id="a placeholder is no value"),
    pytest.param(f'{ACTION}"{{\\"a\\": 1}}"', MALFORMED, id="JSON that is encoded twice is no text"),
    pytest.param(f"{ACTION}{{&quot;a&quot;: 1}}", MALFORMED, id="nor is JSON with HTML escapes"),
    pytest.param(f'{ACTION}{{"a": 1}}, {{"a": 2}}', MALFORMED, id="two objects are too many"),
    pytest.param(f'{ACTION}{{"ok": false, "ok": true}}', MALFORMED, id="a key given twice is unreadable"),
    pytest.param(f'{ACTION}{{"a": NaN}}', MALFORMED, id="NaN in JSON is unreadable"),
    pytest.param(f'{ACTION}{{"a": "\\ud800"}}', MALFORMED, id="a lone surrogate is unreadable"),
    pytest.param(f'{ACTION}{{"a": {"9" * 5000}}}', MALFORMED, id="a number of 5,000 digits is unreadable"),
    pytest.param(f"{ACTION}{'[' * 300}{']' * 300}", MALFORMED, id="300 levels are too deep"),
    pytest.param(f"{ACTION}\u201ca\u201d", action("\u201ca\u201d"), id="typographic quotes are text"),
    pytest.param(
        f"{ACTION}{{\u201ca\u201d: 1}}", MALFORMED, id="typographic quotes in JSON are not guessed at"
    ),
    # JSON actions
    pytest.param(
        '{"name": "search", "arguments": {"q": 1}}', action({"q": 1}), id="a bare native call is a call"
    ),
    pytest.param(
        '{"action": "final_answer", "action_input": {"n": 1}}', answer('{"n":1}'), id="a JSON answer is final"
    ),
    pytest.param('{"answer": 42}', MALFORMED, id="other JSON is no action"),
    pytest.param(
        "<|channel|>commentary to=functions.search<|message|>}<|call|>", MALFORMED, id="a lone brace is none"
    ),
]


def said(parsed: Parsed) -> tuple[str, Any, Any]:
    return (parsed.kind, parsed.answer if parsed.kind == "final" else parsed.tool, parsed.args)


@pytest.mark.parametrize(("text", "expected"), RULES)
def test_the_rules(text: str, expected: tuple[str, Any, Any]) -> None:
    parsed = parse(text)
    assert said(parsed) == expected
    assert bool(parsed.reason) == (parsed.kind == "malformed")


class TestStrictness:
    def test_text_without_a_marker_is_malformed_or_an_answer(self) -> None:
        assert parse("It is 4.").kind == "malformed"
        assert said(parse(" It is 4.\n", strict=False)) == answer("It is 4.")

    @pytest.mark.parametrize("text", ["Thought: hm", "", "Action: a", '{"action": "a", "action_input": {'])
    def test_half_a_reply_is_never_an_answer(self, text: str) -> None:
        assert parse(text, strict=False).kind == "malformed"

    def test_no_reply_is_malformed(self) -> None:
        assert parse(None) == Parsed("malformed", reason="there is no reply")


class TestCutReplies:
    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            pytest.param('{"path": "/x"', "malformed", id="more arguments may have been lost"),
            pytest.param("SELECT * FROM us", "malformed", id="nothing says where a text ends"),
            pytest.param('{"path": "/x"}', "action", id="an object that is closed is whole"),
            pytest.param("/x\nObservation: I wa", "action", id="the cut came after the input"),
        ],
    )
    def test_only_a_whole_input_is_taken(self, given: str, kind: str) -> None:
        assert parse(ACTION + given, truncated=True).kind == kind

    def test_a_bracket_forgotten_by_the_model_is_added(self) -> None:
        assert parse(ACTION + '{"path": "/x"').args == {"path": "/x"}


class TestDialects:
    @pytest.mark.parametrize(
        ("dialect", "text", "expected"),
        [
            ("bracket", 'Action: search[{"q": "]"}]', action({"q": "]"})),
            ("bracket", "Action: search[5]", action("5")),
            ("bracket", "Action: search[{'q' 1}]", MALFORMED),
            ("bracket", "Final Answer: 4", answer("4")),
            ("bracket", 'Action: Finish[{"name": "x"}]', answer('{"name": "x"}')),
            ("call_syntax", 'Action: finish(answer={"name": "x"})', answer('{"name": "x"}')),
            ("call_syntax", "Action: search(q=[1, 'a'], on=True)", action({"q": [1, "a"], "on": True})),
            ("call_syntax", 'Action: search("a=b")', action("a=b")),
            ("call_syntax", "Action: search()", action({})),
            ("call_syntax", "Action: search(q=open('x'))", MALFORMED),
            ("xml", "I see<tool>search</tool><tool_input>a</tool_input><observation>b", action("a")),
            ("xml", "<tool>search</tool><tool_input>a</tool_input><final_answer>b</final_answer>", MALFORMED),
            ("xml", "<tool>search</tool>", MALFORMED),
            ("bracket", "Action: search[x]\nAction Input: y", MALFORMED),
            ("alfworld", 'Action: search({"q": 1})', action({"q": 1})),
            ("alfworld", "> search lamp", action("lamp")),
            ("self_ask", 'Action Input: {"q": 1}', MALFORMED),
            ("self_ask", "Follow up: who?\nIntermediate answer: x", action("who?", "Intermediate Answer")),
            ("leaked_native", '<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>', action({})),
        ],
    )
    def test_each_has_its_grammar(self, dialect: str, text: str, expected: tuple[str, Any, Any]) -> None:
        parsed = parse(text, dialect=dialect)
        if expected is MALFORMED:
            assert parsed.kind == "malformed"
        else:
            assert said(parsed) == expected

    def test_an_unknown_one_is_a_mistake_of_the_caller(self) -> None:
        with pytest.raises(ConfigError, match="no dialect 'klingon'; choose one of react, "):
            parse("x", dialect="klingon")
