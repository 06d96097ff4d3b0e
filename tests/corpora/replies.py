"""Replies of text models, written by hand: what each says, by the rules of the corpus `react_cases.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]


def does(tool: str, args: Any, **more: Any) -> Row:
    return {"kind": "action", "tool": tool, "args": args, **more}


def says(answer: str, **more: Any) -> Row:
    return {"kind": "final", "answer": answer, **more}


MALFORMED: Row = {"kind": "malformed"}
CALL = "Thought: the tide table knows\nAction: tides\nAction Input: "

# format, text, what it says, and kinds that would be a bug
CASES: dict[str, list[tuple[Any, ...]]] = {
    "react": [
        (CALL + "Brest, Sunday", does("tides", "Brest, Sunday", thought="the tide table knows")),
        (CALL + '{"port": "Brest"}', does("tides", {"port": "Brest"}, thought="the tide table knows")),
        (CALL + "{}", does("tides", {})),
        (CALL + "[1, 2]", does("tides", [1, 2])),
        (CALL + '{"port": "Brest",}', does("tides", {"port": "Brest"}), "final"),
        (CALL + "{'port': 'Brest', 'spring': True}", does("tides", {"port": "Brest", "spring": True})),
        (CALL + '```json\n{"port": "Brest"}\n```', does("tides", {"port": "Brest"})),
        (CALL + 'Brest\nObservation: 6.1 m\nFinal Answer: 6.1 m', does("tides", "Brest"), "final"),
        (CALL + "Brest\nAction: ferries\nAction Input: Ouessant", MALFORMED, "action"),
        (CALL + "Brest\nThought: done\nFinal Answer: 6.1 m", MALFORMED, "final"),
        ("Thought: I know it\nFinal Answer: six metres", says("six metres", thought="I know it")),
        ("Final Answer: six metres", says("six metres"), "action"),
        ("Final Answer: one\n\ntwo", says("one\n\ntwo")),
        ("Final Answer: 6\nAction: tides\nAction Input: Brest", MALFORMED, "action"),
        ("Final Answer: 6\nObservation: the tide is out", says("6\nObservation: the tide is out")),
        ("Thought: look\nAction: None", MALFORMED, "action"),
        ("Thought: look\nAction:\nAction Input: Brest", MALFORMED, "action"),
        ("Thought: I wonder about the tides.", MALFORMED, "action"),
        ("", MALFORMED, "final"),
        ("The sea is calm today.", MALFORMED, "action"),
        ("Thought: Häfen\nAction: tides\nAction Input: Łeba 🌊", does("tides", "Łeba 🌊", thought="Häfen")),
        ("Thought: look\r\nAction: tides\r\nAction Input: Brest\r\n", does("tides", "Brest")),
    ],
    "react_answer": [
        ("Thought: enough is known\nAnswer: six metres\n", says("six metres")),
        ("Thought: enough is known\nAnswer: first line\n\nsecond line", says("first line\n\nsecond line")),
        ("Answer: the Action: of waves on sand", says("the Action: of waves on sand"), "action"),
    ],
    "react_json": [
        ('Action:\n```json\n{"action": "tides", "action_input": "Brest"}\n```', does("tides", "Brest")),
        ('Action:\n```\n{"action": "tides", "action_input": {"port": "Brest"}}\n```', does("tides", {"port": "Brest"})),
        ('Thought: hm\nAction:\n{"action": "tides", "action_input": "Brest"}', does("tides", "Brest", thought="hm")),
    ],
    "react_bracket": [
        ("Thought 1: look it up\nAction 1: Search[Iroise Sea]", does("Search", "Iroise Sea")),
        ("Thought 2: found\nAction 2: Finish[six metres]", says("six metres")),
        ("Action: Lookup[tidal range (spring)]", does("Lookup", "tidal range (spring)")),
    ],
    "alfworld": [
        ("> go to harbour 2", does("go", "to harbour 2")),
        ("> think: the net is in the boat", does("think", "the net is in the boat")),
        ("> open crate 1", does("open", "crate 1")),
    ],
    "xml": [
        ("<tool>tides</tool><tool_input>Brest</tool_input>", does("tides", "Brest")),
        ("<tool>tides</tool><tool_input>Brest", does("tides", "Brest")),
        ("<final_answer>six metres</final_answer>", says("six metres")),
    ],
    "self_ask": [
        ("Follow up: how high is the tide", does("Intermediate Answer", "how high is the tide")),
        ("So the final answer is: six metres", says("six metres")),
    ],
    "call_syntax": [
        ('Thought: look\nAction: tides(port="Brest", day=3)', does("tides", {"port": "Brest", "day": 3}), "final"),
        ('Thought: done\nAction: finish(answer="six metres")', says("six metres")),
    ],
    "leaked_native": [
        (
            ('<function_calls>\n<invoke name="tides">\n<parameter name="port">Brest</parameter>\n</invoke>\n'
            "</function_calls>"),
            does("tides", {"port": "Brest"}),
            "final",
        ),
        (
            ("<|tool_calls_section_begin|><|tool_call_begin|>functions.tides:0<|tool_call_argument_begin|>"
            '{"port": "Brest"}<|tool_call_end|><|tool_calls_section_end|>'),
            does("tides", {"port": "Brest"}),
            "final",
        ),
    ],
}  # fmt: skip

# An Action line that never ends in its input, with so many blanks that a backtracking pattern tries for ever.
HANGS = "Action: " + " \t\n" * 20_000 + "Action"


def rows() -> Iterator[Row]:
    for form, cases in CASES.items():
        for at, (text, expected, *bugs) in enumerate(cases, 1):
            yield {
                "id": f"own-{form}-{at:02}",
                "format": form,
                "text": text,
                "expected": expected,
                "must_not": bugs,
            }
    yield {"id": "own-redos", "format": "react", "text": HANGS, "expected": MALFORMED, "must_not": ["final"]}
