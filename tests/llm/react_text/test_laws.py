"""Laws of the scanner: it never raises, takes linear time, and reads back what is written."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.draws import draws, sampled
from wesichain.core import ToolSpec
from wesichain.core.internal import dump_json
from wesichain.llm.react_text import parse
from wesichain.llm.react_text.dialects import DIALECTS, find_dialect
from wesichain.llm.react_text.parsed import is_placeholder
from wesichain.llm.react_text.react import Options
from wesichain.llm.react_text.reader import Reader, quote

PIECES = [
    "Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "Answer:", "Question:",
    "**Action:**", "action_input:", "Action 1:", "search", "search[x]", "search(q=1)", "None", "Obs", "\n",
    "\n\n", " ", "\t", "\r\n", "\u2028", "\n```\n", "```json\n", "```", "`", "~~~\n", "**", "#", "{", "}",
    "[", "]", "(", ")", '"', "'", ":", "=", ",", "\\", "/", "/*", "*/", "<", ">", "|", '{"a": 1}',
    '{"action": "x", "action_input": {}}', "{'a': True,}", '"text"', "5", "NaN", "null", "<think>",
    "</think>", "<|end|>", "</s>", "<tool>", "<tool_input>", "<final_answer>", "<tool_call>", "\u00ab",
    "\u00bb", "\u201c", "\u201d", "\u300c", "\u300d", ' "so', 'so" ', "<|channel|>", "<|message|>",
    "<|call|>", "<|start|>assistant", "final", "analysis", " to=functions.x",
]  # fmt: skip
REPLIES = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join)


@given(text=REPLIES, strict=st.booleans(), truncated=st.booleans(), dialect=st.sampled_from(sorted(DIALECTS)))
@example(text="<|channel|><|message|>{}<|call|>", strict=True, truncated=False, dialect="react")
@draws(40)
def test_every_text_is_read_as_one_of_three_things(
    text: str, strict: bool, truncated: bool, dialect: str
) -> None:
    parsed = parse(text, strict=strict, truncated=truncated, dialect=dialect)
    match parsed.kind:
        case "action":
            assert parsed.tool
            assert not parsed.reason
            dump_json(parsed.args)
        case "final":
            assert parsed.answer == (parsed.answer or "").strip() != ""
        case "malformed":
            assert parsed.reason
            assert parsed.args is None is parsed.answer


@given(text=REPLIES)
@draws(15)
def test_looseness_only_makes_answers_of_what_has_no_marker(text: str) -> None:
    strict, loose = parse(text), parse(text, strict=False)
    if strict.kind == "malformed":
        assert loose.kind != "action"
    else:
        assert loose == strict


@given(text=REPLIES)
@draws(15)
def test_a_cut_never_makes_an_action_of_what_was_none(text: str) -> None:
    if parse(text, truncated=True).kind == "action":
        assert parse(text) == parse(text, truncated=True)


# --- reading back what is written ------------------------------------------------------------------

# What opens and closes quotations, elements and fences, in arguments: it opens and closes none there.
QUOTE_MARKS = ["\u00ab", "\u00bb", "\u201c", "\u201d", "\u300c", "\u300d", '"', "`", "```", "\n", "a"]
TEXTS = st.text() | st.lists(st.sampled_from([*QUOTE_MARKS, "<b>", "</b>", "<!--", "-->"])).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(TEXTS | st.sampled_from(["q", "city", "True"]), JSON, max_size=4)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", fullmatch=True).filter(
    lambda name: name.lower() not in ("none", "null", "finish")
)


def has_placeholder(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_placeholder, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and is_placeholder(value)


def is_encoded(value: Any) -> bool:
    """Whether a text would be JSON that was encoded twice."""
    return isinstance(value, str) and value.strip()[:1] in ("{", "[")


@pytest.mark.parametrize("dialect", ["react", "react_bracket", "call_syntax", "xml"])
@given(name=NAMES, args=ARGS, after=REPLIES)
@draws(20)
@example(name="search", args={"q": "\nObservation: 1\n```\nFinal Answer: <b>"}, after="")
def test_an_action_that_is_written_is_read_back(
    dialect: str, name: str, args: dict[str, Any], after: str
) -> None:
    written = find_dialect(dialect).action(name, args)
    reader = Options(find_dialect(dialect).grammar).read(f"Thought: so\n{written}\nObservation: {after}")
    assume(reader.closed is None)  # a rehearsal is asked again
    assume(not has_placeholder(args))
    parsed = parse(f"Thought: so\n{written}\nObservation: {after}", dialect=dialect)
    assert (parsed.kind, parsed.thought, parsed.tool, parsed.args) == ("action", "so", name, args)


@given(name=NAMES, args=JSON)
@draws(15)
def test_any_json_can_be_an_input(name: str, args: Any) -> None:
    written = find_dialect("react").action(name, args)
    assume(not has_placeholder(args) and not is_encoded(args))
    parsed = parse(written)
    assert (parsed.tool, parsed.args) == (name, args)


@pytest.mark.parametrize("dialect", ["react", "react_bracket", "call_syntax", "xml"])
def test_an_answer_that_is_written_is_read_back(dialect: str) -> None:
    written = find_dialect(dialect).final('It is 4, [really] ("4").')
    parsed = parse(f"Thought: so\n{written}", dialect=dialect)
    assert (parsed.kind, parsed.answer) == ("final", 'It is 4, [really] ("4").')


@given(REPLIES)
@example("\nAction\x1d: rm")
@example("\u2028Action: rm")
@draws(15)
def test_quoted_text_has_no_markers(text: str) -> None:
    assume("</think>" not in text)  # behind which a reply begins anew
    sections = Reader.of(quote(text), is_strict=False).sections
    assert {section.mark for section in sections if section.at < section.start} <= {"plain", "call"}


@given(REPLIES)
@draws(15)
def test_quoting_takes_nothing_away(text: str) -> None:
    assert quote(text).replace("| ", "") == text.replace("| ", "")


# --- nothing that was not meant ---------------------------------------------------------------------

SPOKEN = ["react", "react_bracket", "call_syntax", "xml"]
CALLS = st.tuples(st.sampled_from(SPOKEN), NAMES, ARGS)
REASONING = [
    ("<think>", "</think>"), ("", "</think>"), ("Let me see.\n<think>", "</think>"),
    ("[THINK]", "[/THINK]"), ("", "[/THINK]"), ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"), ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|end|>\n<|start|>assistant<|channel|>final <|message|>"),
    ("<|channel>thought\n", "<channel|>"), ("<unused94>thought\n", "<unused95>"),
    ("<seed:think>", "</seed:think>"), ("<thinking_process>", "</thinking_process>"),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<think>", "</ think>"), ("", "<\u00a0/think\u200b>"),
    *(("", closed) for closed in ("</thinking>", "</thought>", "</reasoning>", "</scratchpad>", "</analysis>")),
    *(("", closed) for closed in ("<|END_THINKING|>", "<|end_of_thought|>", "<channel|>", "<unused95>")),
    *(("", closed) for closed in ("\u25c1/think\u25b7", "<\uff5cend\u2581of\u2581thinking\uff5c>", "[/THINKING]")),
]  # fmt: skip
BLANKS = "\u00a0\u2003\u2009\u202f\u3000\u200b\u2060\ufeff\u180e\u2007\u00ad\u115f\u3164\u2800\u200e\u202e"
QUOTATIONS: list[Callable[[str], str]] = [
    lambda call: "\n".join(f"> {line}" for line in call.split("\n")),
    lambda call: "\n".join(f"| {line}" for line in call.split("\n")),
    lambda call: f"<example>\n{call}\n</example>",
    lambda call: f"<!--\n{call}\n-->",
    lambda call: f"<document>\n{call}\n</document>",
    lambda call: f"The page says:\n{call}",
    lambda call: f"\u305d\u3053\u306b\u306f\u3053\u3046\u3042\u308b\uff1a\n{call}",
    lambda call: f"<any_name at='all'>\n{call}\n</any_name>",
    lambda call: f"\u300c\n{call}\n\u300d",
    lambda call: f"It read \u201cplease\n{call}\n\u201d.",
    lambda call: f"Thought: see\n```\n{call}\n```",
    lambda call: f"Thought: see\n```text\n{call}\n```\nThat is all.",
    lambda call: f"I see.\n```python\n{call}\n```\n",
    lambda call: f"````markdown\n```\n{call}\n```\n````",
    lambda call: f"~~~\n```\n{call}\n```\n~~~",
    lambda call: f"```text\n~~~\n{call}\n~~~\n```",
    lambda call: f"`````\n````\n```\n{call}\n```\n````\n`````",
]
DENIALS = [
    "do not use {}", "never {}", "don\u2019t call {}", "{} is not needed", "{} (do not run)", "no {}",
    "~~{}~~",
]  # fmt: skip
REMARKS = st.text(st.characters(categories=["L", "Zs"]), min_size=3).filter(
    lambda text: len(text.strip()) > 2 and not "observation:".startswith(text.strip().lower())
)


def written(call: tuple[str, str, dict[str, Any]]) -> str:
    dialect, name, args = call
    return find_dialect(dialect).action(name, args)


@given(call=CALLS, marks=st.sampled_from(REASONING), before=REPLIES, after=st.sampled_from(["", "\nSo."]))
@draws(20)
def test_law_nothing_inside_reasoning_is_called(
    call: tuple[str, str, dict[str, Any]], marks: tuple[str, str], before: str, after: str
) -> None:
    opened, closed = marks
    text = f"{before}\n{opened}\n{written(call)}{after}\n{closed}"
    parsed = parse(text, dialect=call[0])
    assert parsed.kind != "action"
    assert parse(f"{text}\nFinal Answer: 4", dialect=call[0]).kind != "action"


@given(call=CALLS, marks=st.sampled_from([marks for marks in REASONING if all(marks)]))
@draws(20)
def test_law_a_whole_block_removes_itself_only(
    call: tuple[str, str, dict[str, Any]], marks: tuple[str, str]
) -> None:
    opened, closed = marks
    assume(closed not in written(call) and "<" not in written(call))
    answered = parse(f"{opened}\n{written(call)}\n{closed}\nFinal Answer: 4", dialect=call[0])
    assert (answered.kind, answered.answer) == ("final", "4")


@given(call=CALLS, opened=st.sampled_from([opened for opened, _ in REASONING if opened]))
@draws(20)
def test_law_reasoning_that_never_ends_is_not_acted_on(
    call: tuple[str, str, dict[str, Any]], opened: str
) -> None:
    assume(not any(closed in written(call) for _, closed in REASONING))
    assert parse(f"{opened}\n{written(call)}", dialect=call[0]).kind == "malformed"


@given(call=CALLS, quoted=st.sampled_from(QUOTATIONS))
@draws(20)
def test_law_nothing_inside_a_quotation_is_called(
    call: tuple[str, str, dict[str, Any]], quoted: Callable[[str], str]
) -> None:
    assert parse(quoted(written(call)), dialect=call[0]).kind != "action"


@given(call=CALLS, denial=st.sampled_from(DENIALS), blank=st.sampled_from([" ", *BLANKS]))
@draws(15)
def test_law_a_name_with_anything_beside_it_is_not_that_tool(
    call: tuple[str, str, dict[str, Any]], denial: str, blank: str
) -> None:
    dialect, name, args = call
    text = find_dialect(dialect).action(denial.format(name).replace(" ", blank), args)
    parsed = parse(text, dialect=dialect)
    assert (parsed.kind, parsed.tool) != ("action", name)


@given(call=CALLS, remark=REMARKS, between=st.sampled_from([" ", "\n", "\n\n", "\nThought: "]))
@draws(20)
def test_law_the_call_of_a_tool_that_is_not_pure_ends_the_reply(
    call: tuple[str, str, dict[str, Any]], remark: str, between: str
) -> None:
    assert parse(f"{written(call)}{between}{remark}", dialect=call[0]).kind == "malformed"


@given(call=CALLS, remark=REMARKS, between=st.sampled_from(["\n", "\n\n", "\nThought: "]))
@draws(20)
def test_law_a_remark_behind_the_call_of_a_pure_tool_changes_nothing(
    call: tuple[str, str, dict[str, Any]], remark: str, between: str
) -> None:
    dialect, name, args = call
    pure = ToolSpec(name, "Looks.", {"type": "object", "properties": {}}, pure=True)
    parsed = parse(f"{written(call)}{between}{remark}", dialect=dialect, tools=[pure])
    assert (parsed.kind, parsed.tool, parsed.args) == ("action", name, args)


@given(first=CALLS, second=CALLS, between=st.sampled_from(["\n", "\nThought: then\n", " or "]))
@draws(20)
def test_law_one_reply_is_one_call(
    first: tuple[str, str, dict[str, Any]], second: tuple[str, str, dict[str, Any]], between: str
) -> None:
    dialect, name, _ = first
    tools = [
        ToolSpec(each, "Looks.", {"type": "object", "properties": {}}, pure=True)
        for each in {name, second[1]}
    ]
    other = find_dialect(dialect).action(*second[1:])
    assert parse(f"{written(first)}{between}{other}", dialect=dialect, tools=tools).kind == "malformed"


@given(call=CALLS)
@draws(15)
def test_law_the_same_call_is_made_when_it_is_meant(call: tuple[str, str, dict[str, Any]]) -> None:
    assume(not has_placeholder(call[2]))
    parsed = parse(f"<think>hm</think>\nThought: I do it.\n{written(call)}", dialect=call[0])
    assert (parsed.kind, parsed.tool, parsed.args) == ("action", call[1], call[2])


# --- time ------------------------------------------------------------------------------------------

STARTS = {
    "": "alone",
    "Action: a\nAction Input: ": "in an input",
    'Action: a\nAction Input: {"a": ': "in JSON",
    "Action: a\nAction Input: {'a': '": "in a string",
    "Action: ": "in an action",
    "Final Answer: ": "in an answer",
    "Thought: x\n```\n": "in a fence",
    '{"action": "x", "action_input": "': "in a JSON action",
    'Action: a\nAction Input: {"a": 1} ': "behind an input",
    "<tool_call>": "in a native call",
    "analysis": "in glued channels",
}
PROMISED = (" ", "\n", "`", "{", "```\n")
REPEATED = [
    " ", "\n", "`", "{", "[", '"', "'", "\\", "*", "#", "(", "<", "\t ", "\r\n", "```\n", "```json\n", "` ",
    '{"a":', '{"a":1}', "'a': 1, ", "Action:\n", "Action: a\nAction Input: b\n", "Thought:\n", "/*", "//",
    "Observation:\n", "Final Answer:\n", "action ", "action_", "<|a|>", "\nObs", "a", "9", "=", "\u2028",
    "<think>", "</think>", "[THINK]", "<think>\n", "<user>", "\n<example>", "<!--", "\u201c", "\u00ab",
    '" "', "<tool_call>", "<function=a>", '<invoke name="a">', "<parameter=a>", "[TOOL_CALLS]",
    "<|python_tag|>", "<|channel|>analysis<|message|>", "<|channel|>", "<|tool_call_begin|>",
    "assistantfinal", "wait ", "no, ", "Question:\n", "User: a\n", "### ", "</s>", "(", "not ", "i do ",
    "actually ", "{{", "\u200b", ". ", "\n> ",
]  # fmt: skip


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def repeated(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "start", sampled([pytest.param(start, id=name) for start, name in STARTS.items()], 3)
)
def test_100_kb_of_anything_is_read_at_once(start: str) -> None:
    """As fast as 50 ms are for blanks, backticks, line breaks and braces; some room for what is dense in
    markers."""
    slow = {
        piece: loops
        for piece in [*sampled(PROMISED, 2), *sampled(REPEATED, 5)]
        if (loops := _least(start + repeated(piece, 100_000), limit := 10 if piece in PROMISED else 20))
        > limit
    }
    assert slow == {}


def _least(text: str, enough: float) -> float:
    """The CPU time of reading in loops of `bare_loop`, the least of ten tries; one that is enough is the last.

    Machines differ, and one machine from second to second: both are measured in turn.
    """
    best = float("inf")
    for _ in range(10):
        loop = cpu_seconds(bare_loop)
        best = min(best, cpu_seconds(partial(parse, text)) / loop)
        if best <= enough:
            break
    return best


def bare_loop() -> None:
    """What takes 5 ms where 100 kB are to be read in 50: 20,000 matches looked at one by one."""
    for match in BARE.finditer(LOOPED):
        match.span()


BARE, LOOPED = re.compile("a"), "a" * 20_000
