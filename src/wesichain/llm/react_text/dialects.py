"""Dialects: the formats in which text models call tools, and `parse`, which reads any of them.

A dialect with a `form` can be used in a prompt, which shows the form and writes earlier calls in it. The
others are only parsed: they are formats that models were trained to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import LlmTraits, Value, dump_json, is_array, is_object
from wesichain.errors import ConfigError
from wesichain.llm.calls import spaced_json
from wesichain.llm.families import family_of

from .inputs import Input, read_input, read_name, tidy
from .lenient import load
from .native import NO_TOOL
from .parsed import NoCallError, Parsed, TextCall, TextReading, malformed
from .react import REACT_GRAMMAR, SEVERAL, Grammar, Options, called, read_text
from .rules import check


def _react_action(name: str, args: JsonValue) -> str:
    return f"Action: {name}\nAction Input: {spaced_json(args)}"


def _react_final(answer: str) -> str:
    return f"Final Answer: {answer}"


class Dialect(Value):
    """One format. `form` is shown in the prompt, with the placeholders `{tool_names}` and `{answer}`; `hint`
    is a one-line description, which is returned to the model after a malformed reply."""

    name: str
    grammar: Grammar = REACT_GRAMMAR
    form: str = ""
    hint: str = ""
    action: Callable[[str, JsonValue], str] = _react_action
    final: Callable[[str], str] = _react_final


def parse(
    text: str | None,
    *,
    strict: bool = True,
    dialect: str | Dialect = "react",
    truncated: bool = False,
    tools: Sequence[ToolSpec] = (),
    family: str = "",
    opens_thinking: bool = False,
) -> Parsed:
    """Parse one reply of a text model. Never raises for a text, and takes linear time.

    `strict`: text without any marker is malformed, not a final answer. `truncated`: the reply was cut off at
    the token limit, so that an input is only accepted if it is complete. `tools` are the offered tools. A
    call of an unknown tool, or one that is not pure, has to be the end of the reply. `family` and
    `opens_thinking` are
    the model's traits.
    """
    if text is None:
        return malformed("there is no reply")
    given: Any = text  # a user's model may return anything
    if not isinstance(given, str):
        return malformed(f"the reply is {type(given).__name__}, not text")
    row = family_of("", LlmTraits(family=family))
    options = Options(
        find_dialect(dialect).grammar,
        strict,
        truncated,
        row,
        opens_thinking or row.opens_thinking,
        frozenset(tool.name.casefold() for tool in tools) if tools else None,
    )
    parsed = read_text(text, options)
    return parsed if truncated and parsed.kind == "malformed" else check(parsed, tools)


def find_dialect(dialect: str | Dialect) -> Dialect:
    if isinstance(dialect, str) and dialect in DIALECTS:
        return DIALECTS[dialect]
    if isinstance(dialect, Dialect):
        return dialect
    raise ConfigError(f"unknown dialect {dialect!r}; use one of {', '.join(DIALECTS)}")


# --- calls in one line: `Action: search[x]`, `Action: search(query="x")` ----------------------------

_KEYWORD = re.compile(r"\s*+[A-Za-z_]\w*+\s*+=(?!=)")
# Brackets, and strings, in which brackets do not count; in plain text, an apostrophe begins no string.
_STRING = r'"(?:[^"\\\n]++|\\.)*+"'
_PIECES = {
    "[": re.compile(rf"{_STRING}|[\[\]]"),
    "(": re.compile(rf"{_STRING}|'(?:[^'\\\n]++|\\.)*+'|[()]"),
}


def _split_by(opener: str, closer: str, arguments: Callable[[str], Input]) -> Callable[[str], TextReading]:
    """A function that parses actions with their input in brackets; the action `finish` has the answer."""

    def split(text: str) -> TextReading:
        (line, given), behind = _bracketed(text, opener, closer)
        if read_name(line)[1]:
            raise NoCallError(NO_TOOL)
        reading = called(line, given.strip(), read=arguments, remark=behind)
        if reading.calls[0].name.lower() == "finish":
            return TextReading(answer=_answer(reading.calls[0].args, given))
        return reading

    return split


def _bracketed(text: str, opener: str, closer: str) -> tuple[tuple[str, str], str]:
    """The name and the input of `name[input]`, and the text after it.

    A bracket in the input may be unmatched. If a bracket before the last one closes the call, another call
    follows, which is an error.
    """
    text = tidy(text)
    line = text.partition("\n")[0]
    whole = line if closer in line else text
    name, opened, rest = whole.partition(opener)
    given, closed, behind = rest.rpartition(closer)
    if not opened or not closed:
        raise NoCallError(f"the Action is not written as tool{opener}input{closer}")
    depth = 1
    for piece in _PIECES[opener].finditer(rest):
        depth += (piece.group() == opener) - (piece.group() == closer)
        if not depth and piece.start() < len(given):
            raise NoCallError(SEVERAL)
    return (name, given), behind.strip("`*. ") + text[len(whole) :]


def _answer(args: Any, given: str) -> str:
    """The answer in a call of `finish`, with or without a keyword: `finish("x")`, `finish(answer="x")`."""
    if is_object(args) and len(args) == 1 and _KEYWORD.match(given):
        (args,) = args.values()
    return args if isinstance(args, str) else spaced_json(args)


def _bracket_input(given: str) -> Input:
    """The input in brackets: text, unless it is clearly JSON."""
    read = read_input(given)
    is_data = isinstance(read.value, str) or is_object(read.value) or is_array(read.value)
    return read if is_data else Input(given, given)


def _keyword_input(given: str) -> Input:
    """Keyword arguments, such as `city="Paris", days=3`, or one argument without a name."""
    if given and not _KEYWORD.match(given):
        return read_input(given)
    return Input(load(f"{{{given}}}", closed=True)[0], given)


def _keyword_action(name: str, args: JsonValue) -> str:
    if not is_object(args) or not all(key.isascii() and key.isidentifier() for key in args):
        return f"Action: {name}({spaced_json(args)})"
    return f"Action: {name}({', '.join(f'{key}={spaced_json(value)}' for key, value in args.items())})"


# --- tags, and formats that are only parsed -------------------------------------------------------

_TAGS = re.compile(
    r"(?P<action><tool>)|(?P<input>(?:</tool>\s*+)?+<tool_input>)|(?P<final><final_answer>)"
    r"|(?P<observation><observation>)|(?P<thought></(?:tool|tool_input|final_answer)>)"
)
_FOLLOW_UP = re.compile(
    r"^[ \t]*+(?:(?P<input>follow ?up:)|(?P<final>so the final answer is:)"
    r"|(?P<observation>intermediate answer:))",
    re.IGNORECASE | re.MULTILINE,
)
_PROMPT = re.compile(r"^[ \t]*+(?P<action>>)", re.MULTILINE)


def _xml_action(name: str, args: JsonValue) -> str:
    given = spaced_json(args).replace("<", "\\u003c")  # it only occurs in strings, which then contain no tag
    return f"<tool>{name}</tool><tool_input>{given}</tool_input>"


def _command(text: str) -> TextReading:
    """A command line: a verb and its object."""
    line, _, behind = tidy(text).partition("\n")
    verb, _, given = line.partition(" ")
    if not verb:
        raise NoCallError("the command is empty")
    return TextReading(
        [TextCall(verb.rstrip(":"), given.strip(), given.strip(), is_bare=True)], behind.strip()
    )


# --- the table -----------------------------------------------------------------------------------

_STEPS = """\
Observation: the result of the action, given to you
... (Thought, action and Observation can repeat)
Thought: I now know the final answer
"""
REACT = Dialect(
    "react",
    form=f"""\
Thought: think about what to do next
Action: the tool to use, one of [{{tool_names}}]
Action Input: the tool's arguments as one JSON object
{_STEPS}Final Answer: {{answer}}""",
    hint='Write "Thought: ...", then either "Action: <tool>" and "Action Input: <JSON object>", each on a '
    'line of its own, or "Final Answer: <answer>".',
)
_BRACKET = Dialect(
    "react_bracket",
    Grammar(split=_split_by("[", "]", _bracket_input)),
    form=f"""\
Thought: think about what to do next
Action: tool[input], where the tool is one of [{{tool_names}}] and the input is one JSON object
{_STEPS}Action: Finish[{{answer}}]""",
    hint='Write "Thought: ...", then on a line of its own "Action: <tool>[<JSON object>]" or '
    '"Action: Finish[<answer>]".',
    action=lambda name, args: f"Action: {name}[{spaced_json(args)}]",
    final=lambda answer: f"Action: Finish[{answer}]",
)
_CALL = Dialect(
    "call_syntax",
    Grammar(split=_split_by("(", ")", _keyword_input)),
    form=f"""\
Thought: think about what to do next
Action: tool(argument="value", other=1), where the tool is one of [{{tool_names}}]
{_STEPS}Action: finish(answer="{{answer}}")""",
    hint='Write "Thought: ...", then on a line of its own "Action: <tool>(<name>=<value>, ...)" or '
    '"Action: finish(answer=<answer>)".',
    action=_keyword_action,
    final=lambda answer: f"Action: finish(answer={dump_json(answer)})",
)
_XML = Dialect(
    "xml",
    Grammar(_TAGS),
    form=f"""\
Thought: think about what to do next
<tool>the tool to use, one of [{{tool_names}}]</tool><tool_input>its arguments as one JSON object</tool_input>
{_STEPS}<final_answer>{{answer}}</final_answer>""",
    hint='Write "Thought: ...", then either "<tool>...</tool><tool_input>JSON object</tool_input>" or '
    '"<final_answer>...</final_answer>".',
    action=_xml_action,
    final=lambda answer: f"<final_answer>{answer}</final_answer>",
)
_READ_ONLY = (
    Dialect("self_ask", Grammar(_FOLLOW_UP, implied="Intermediate Answer")),
    Dialect("alfworld", Grammar(_PROMPT, split=_command)),
)
DIALECTS: Mapping[str, Dialect] = {
    **{dialect.name: dialect for dialect in (REACT, _BRACKET, _CALL, _XML, *_READ_ONLY)},
    "react_answer": REACT,  # other names for formats that these parse too
    "react_json": REACT,
    "leaked_native": REACT,
    "bracket": _BRACKET,
}
