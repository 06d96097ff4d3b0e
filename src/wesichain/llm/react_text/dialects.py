"""Dialects: the formats in which text models ask for tools, and `parse`, which reads any of them.

A dialect with a `form` can also be spoken: the prompt shows the form, and an earlier call is written
as the model would have written it. The others are for reading what models were trained to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wesichain.core import JsonValue, ToolSpec, dump_json, is_array, is_object
from wesichain.errors import CodecError, ConfigError

from .harmony import Channels, read_channels
from .inputs import Input, read_input, read_name, tidy
from .lenient import load
from .native import CALL_START, NoCallError
from .parsed import Parsed, TextCall, action, final, malformed, without_run_on
from .react import (
    BOTH,
    NO_TOOL,
    QUOTED,
    SEVERAL,
    call_with,
    called,
    read_native,
    read_react,
    remark_of,
    thought_of,
    until_observation,
)
from .reasoning import split_reasoning
from .rules import check
from .structure import TextReply


def write_json(value: JsonValue) -> str:
    """JSON spaced as models write it, so that a call written again is the same text."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{dump_json(key)}: {write_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(write_json, value)) + "]"
    return dump_json(value)


def _react_action(name: str, args: JsonValue) -> str:
    return f"Action: {name}\nAction Input: {write_json(args)}"


def _react_final(answer: str) -> str:
    return f"Final Answer: {answer}"


class Reader(Protocol):
    """How a dialect reads a reply."""

    def __call__(self, text: str, *, strict: bool, truncated: bool) -> Parsed: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format. `form` is shown in the prompt, with the holes `{tool_names}` and `{answer}`;
    `hint` says it in one line to a model that got it wrong."""

    name: str
    read: Reader
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
) -> Parsed:
    """Read one reply of a text model; never raises for what a model wrote, and takes linear time.

    `strict`: text without any marker is malformed, not a final answer. `truncated`: the reply was cut
    by a token limit, so that an input is only taken if it is seen to be complete. `tools`: those that are
    offered. A call of one that is not pure, or not among them, has to be the end of the reply.
    """
    if text is None:
        return malformed("there is no reply")
    given: Any = text  # it may be anybody's model
    if not isinstance(given, str):
        return malformed(f"the reply is {type(given).__name__}, not text")
    parsed = read_reply(text, find_dialect(dialect), strict=strict, truncated=truncated)
    return parsed if truncated and parsed.kind == "malformed" else check(parsed, tools)


def read_reply(text: str, dialect: Dialect, *, strict: bool, truncated: bool) -> Parsed:
    """Read a reply without the rules that depend on its tools."""
    reasoned = split_reasoning(text)
    channels = None if reasoned.is_open else read_channels(reasoned.text)
    if channels is not None and channels.calls:
        return _read_calls_of(channels, truncated=truncated)
    if channels is not None and channels.final is not None:
        return dialect.read(channels.final, strict=False, truncated=truncated)
    if reasoned.is_open or channels is not None:
        return malformed("the reasoning never ends; close it, and write the reply after it")
    return dialect.read(reasoned.text, strict=strict, truncated=truncated)


def _read_calls_of(channels: Channels, *, truncated: bool) -> Parsed:
    thought = channels.reasoning
    if channels.final is not None:
        return malformed(BOTH, thought=thought)
    remarks, calls = [channels.remark], list[TextCall]()
    for name, given in channels.calls:
        read = called(name, given or "{}", thought=thought, truncated=truncated)
        if read.kind != "action":
            return read
        if not is_object(read.args):
            return malformed(f"the input of {name!r} is not one JSON object", thought=thought)
        calls += read.calls
        remarks.append(read.remark)
    return action(*calls, thought=thought, remark="\n".join(remarks))


def find_dialect(dialect: str | Dialect) -> Dialect:
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ConfigError(f"there is no dialect {dialect!r}; choose one of {', '.join(DIALECTS)}")
    return DIALECTS[dialect]


# --- calls in one line: `Action: search[x]`, `Action: search(query="x")` ----------------------------

_KEYWORD = re.compile(r"\s*+[A-Za-z_]\w*+\s*+=(?!=)")
# Brackets, and strings in which they mean nothing; in plain text an apostrophe begins no string.
_STRING = r'"(?:[^"\\\n]++|\\.)*+"'
_PIECES = {
    "[": re.compile(rf"{_STRING}|[\[\]]"),
    "(": re.compile(rf"{_STRING}|'(?:[^'\\\n]++|\\.)*+'|[()]"),
}


def _read_calls(opener: str, closer: str, arguments: Callable[[str], Input]) -> Reader:
    """A reader of actions with their input in brackets, where `finish` gives the answer."""

    def read(text: str, *, strict: bool, truncated: bool) -> Parsed:
        reply = TextReply(text)
        sections = until_observation(reply)
        thought = thought_of(reply, sections)
        place = next((index for index, section in enumerate(sections) if section.mark == "action"), None)
        if place is None:
            return read_react(text, strict=strict, truncated=truncated)
        _, at, start, end = sections[place]
        if reply.quotes(at):
            return malformed(f"the Action {QUOTED}", thought=thought)
        try:
            given, remark = _bracketed(reply.text[start:end], opener, closer)
            remark += "\n" + remark_of(reply, at, sections[place + 1 :])
        except NoCallError as error:
            return malformed(str(error), thought=thought)
        name, aside = read_name(given[0])
        if not name or aside:
            return malformed(NO_TOOL, thought=thought)
        try:
            value = arguments(given[1].strip())
        except CodecError as error:
            return malformed(f"the input of {name!r} cannot be read ({error})", thought=thought)
        if name.lower() == "finish":
            return final(_answer(value.value, given[1]), thought=thought)
        return action(call_with(name, value), thought=thought, remark=f"{value.remark}\n{remark}")

    return read


def _bracketed(text: str, opener: str, closer: str) -> tuple[tuple[str, str], str]:
    """The name and the input of `name[input]`, and what is said behind it.

    A bracket in the input may lack its other half; one that closes the call before the last is another call.
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
    """The answer that `finish` was called with; the one keyword of `finish(answer="x")` is only a form."""
    if is_object(args) and len(args) == 1 and _KEYWORD.match(given):
        (args,) = args.values()
    return args if isinstance(args, str) else write_json(args)


def _bracket_input(given: str) -> Input:
    """The input in brackets: text, unless it is plainly meant to be JSON."""
    read = read_input(given)
    is_data = isinstance(read.value, str) or is_object(read.value) or is_array(read.value)
    return read if is_data else Input(given, given)


def _keyword_input(given: str) -> Input:
    """`city="Paris", days=3` by name; an argument without a name stands for itself."""
    if given and not _KEYWORD.match(given):
        return read_input(given)
    return Input(load(f"{{{given}}}", closed=True)[0], given)


def _keyword_action(name: str, args: JsonValue) -> str:
    if not is_object(args) or not all(key.isascii() and key.isidentifier() for key in args):
        return f"Action: {name}({write_json(args)})"
    return f"Action: {name}({', '.join(f'{key}={write_json(value)}' for key, value in args.items())})"


# --- tags, and formats that are only read ---------------------------------------------------------


def _read_xml(text: str, *, strict: bool, truncated: bool) -> Parsed:
    reply = TextReply(text.partition("<observation>")[0].partition("\nObservation:")[0])
    text = reply.text
    tool, answer = text.find("<tool>"), text.find("<final_answer>")
    begin = min((at for at in (tool, answer) if at >= 0), default=-1)
    before = TextReply(text[: max(begin, 0)])
    thought = thought_of(before, before.sections())
    if begin >= 0 and reply.quotes(begin):
        return malformed(f"the call {QUOTED}", thought=thought)
    if 0 <= tool < answer:
        return malformed(BOTH, thought=thought)
    if answer >= 0:
        return final(without_run_on(_within(text, "final_answer")[0]).strip(), thought=thought)
    name, behind = _within(text, "tool")
    if tool < 0 or not name.strip():
        return read_react(text, strict=strict, truncated=truncated)
    if "<tool_input>" not in behind:
        return malformed("the tool has no <tool_input>", thought=thought, tool=read_name(name).name or None)
    given, remark = _within(behind, "tool_input")
    if "<tool>" in remark or "<tool_input>" in remark:
        return malformed(SEVERAL, thought=thought)
    remark = f"{reply.introduction(begin)}\n{tidy(remark).strip('`')}"
    return called(name, given, thought=thought, remark=remark, truncated=truncated)


def _within(text: str, tag: str) -> tuple[str, str]:
    """The text between two tags, and what follows; a stop sequence may have eaten the closing one."""
    inside, _, after = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")
    return inside, after


def _xml_action(name: str, args: JsonValue) -> str:
    given = write_json(args).replace("<", "\\u003c")  # only strings hold one: no tag can appear in them
    return f"<tool>{name}</tool><tool_input>{given}</tool_input>"


def _read_self_ask(text: str, *, strict: bool, truncated: bool) -> Parsed:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        label, _, given = line.strip().partition(":")
        match label.lower():
            case "follow up" | "followup":
                return _command("Intermediate Answer", given, lines[number + 1 :])
            case "so the final answer is":
                return final(given)
            case _:
                pass
    return read_react(text, strict=strict, truncated=truncated)


def _read_alfworld(text: str, *, strict: bool, truncated: bool) -> Parsed:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        prompt, _, command = line.partition(">")
        verb, _, given = command.strip().partition(" ")
        if not prompt.strip() and verb:
            return _command(verb.rstrip(":"), given, lines[number + 1 :])
    return read_react(text, strict=strict, truncated=truncated)


def _command(tool: str, given: str, behind: Sequence[str]) -> Parsed:
    """A call that is one line."""
    remark = tidy("\n".join(behind)).partition("\nObservation:")[0].removeprefix("Observation:")
    return action(TextCall(tool, given.strip(), given.strip(), is_bare=True), remark=remark)


def _read_leaked(text: str, *, strict: bool, truncated: bool) -> Parsed:
    """A native call in the text, between special tokens or in <tool_call> tags."""
    if CALL_START.search(text):
        return read_native(TextReply(text))
    return read_react(text, strict=strict, truncated=truncated)


# --- the table -----------------------------------------------------------------------------------

_STEPS = """\
Observation: the result of the action, given to you
... (Thought, action and Observation can repeat)
Thought: I now know the final answer
"""
REACT = Dialect(
    "react",
    read_react,
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
    _read_calls("[", "]", _bracket_input),
    form=f"""\
Thought: think about what to do next
Action: tool[input], where the tool is one of [{{tool_names}}] and the input is one JSON object
{_STEPS}Action: Finish[{{answer}}]""",
    hint='Write "Thought: ...", then on a line of its own "Action: <tool>[<JSON object>]" or '
    '"Action: Finish[<answer>]".',
    action=lambda name, args: f"Action: {name}[{write_json(args)}]",
    final=lambda answer: f"Action: Finish[{answer}]",
)
_CALL = Dialect(
    "call_syntax",
    _read_calls("(", ")", _keyword_input),
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
    _read_xml,
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
    Dialect("self_ask", _read_self_ask),
    Dialect("alfworld", _read_alfworld),
    Dialect("leaked_native", _read_leaked),
)
DIALECTS: Mapping[str, Dialect] = {
    **{dialect.name: dialect for dialect in (REACT, _BRACKET, _CALL, _XML, *_READ_ONLY)},
    "react_answer": REACT,  # other names for what these read anyway
    "react_json": REACT,
    "bracket": _BRACKET,
}
