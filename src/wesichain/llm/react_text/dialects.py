"""Dialects: the formats in which text models ask for tools, and `parse`, which reads any of them.

A dialect with a `form` can also be spoken: the prompt shows the form, and an earlier call is written
as the model would have written it. The others are for reading what models were trained to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wesichain.core import JsonValue, dump_json, is_array, is_object
from wesichain.errors import CodecError, ConfigError

from .doubt import denies, takes_back
from .lenient import load
from .native import LEAKS, NoCallError
from .parsed import Parsed, final, malformed, without_run_on
from .react import (
    called,
    first_action,
    is_spoken_of,
    no_tool,
    read_input,
    read_native,
    read_react,
    tool_name,
)
from .sections import foreign_spans, is_within
from .thinking import hear


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

    def __call__(self, reply: str, *, strict: bool, truncated: bool) -> Parsed: ...


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
    text: str | None, *, strict: bool = True, dialect: str | Dialect = "react", truncated: bool = False
) -> Parsed:
    """Read one reply of a text model; never raises for what a model wrote, and takes linear time.

    `strict`: text without any marker is malformed, not a final answer. `truncated`: the reply was cut
    by a token limit, so that an input is only taken if it is seen to be complete.
    """
    if text is None:
        return malformed("there is no reply")
    given: Any = text  # it may be anybody's model
    if not isinstance(given, str):
        return malformed(f"the reply is {type(given).__name__}, not text")
    heard = hear(text)
    if heard.calls and not heard.said.strip():
        name, given = heard.calls[0]
        return called(name, given, thought=heard.reasoning, truncated=truncated)
    if heard.calls:
        return malformed("the reply has both a call and a final answer; give one of them")
    if heard.is_open:
        return malformed("the reasoning never ends; close it, and write the reply after it")
    return find_dialect(dialect).read(heard.said, strict=strict, truncated=truncated)


def find_dialect(dialect: str | Dialect) -> Dialect:
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ConfigError(f"there is no dialect {dialect!r}; choose one of {', '.join(DIALECTS)}")
    return DIALECTS[dialect]


# --- calls in one line: `Action: search[x]`, `Action: search(query="x")` ----------------------------

_KEYWORD = re.compile(r"\s*+[A-Za-z_]\w*+\s*+=(?!=)")


def _read_calls(opener: str, closer: str, arguments: Callable[[str], Any]) -> Reader:
    """A reader of actions with their input in brackets, where `finish` gives the answer."""

    def read(reply: str, *, strict: bool, truncated: bool) -> Parsed:
        try:
            thought, action, after = first_action(reply)
        except NoCallError as error:
            return malformed(str(error))
        if action is None:
            return read_react(reply, strict=strict, truncated=truncated)
        line = action.strip().partition("\n")[0]
        whole = line if closer in line else action
        name, _, given = whole.partition(opener)
        behind = _behind_call(given, opener, closer)
        given, closed, rest = given.rpartition(closer)
        if (
            takes_back(rest)
            or takes_back(behind)
            or takes_back(action.strip()[len(whole.strip()) :])
            or takes_back(after)
        ):
            return malformed(
                "the Action is taken back by what follows; write only what is meant", thought=thought
            )
        if denies(name):
            return malformed(no_tool(name), thought=thought)
        name, given = tool_name(name), given.strip()
        if not closed or not name:
            return malformed(f"the Action is not written as tool{opener}input{closer}", thought=thought)
        try:
            args = arguments(given)
        except CodecError as error:
            return malformed(f"the input of {name!r} cannot be read ({error})", thought=thought)
        if name.lower() == "finish":
            return final(_answer(args, given), thought=thought)
        return Parsed("action", thought=thought, tool=name, args=args, input=given)

    return read


def _behind_call(given: str, opener: str, closer: str) -> str:
    """The text behind the bracket that closes a call, as far as brackets tell."""
    depth = 1
    for index, mark in enumerate(given):
        depth += (mark == opener) - (mark == closer)
        if not depth:
            return given[index + 1 :].strip(f"{opener}{closer} ")
    return ""


def _answer(args: Any, given: str) -> str:
    """The answer that `finish` was called with; the one keyword of `finish(answer="x")` is only a form."""
    if is_object(args) and len(args) == 1 and _KEYWORD.match(given):
        (args,) = args.values()
    return args if isinstance(args, str) else write_json(args)


def _bracket_input(given: str) -> Any:
    """The input in brackets: text, unless it is plainly meant to be JSON."""
    value = read_input(given)
    return value if isinstance(value, str) or is_object(value) or is_array(value) else given


def _keyword_input(given: str) -> Any:
    """`city="Paris", days=3` by name; an argument without a name stands for itself."""
    if not given:
        return {}
    return load(f"{{{given}}}", closed=True)[0] if _KEYWORD.match(given) else read_input(given)


def _keyword_action(name: str, args: JsonValue) -> str:
    if not is_object(args) or not all(key.isascii() and key.isidentifier() for key in args):
        return f"Action: {name}({write_json(args)})"
    return f"Action: {name}({', '.join(f'{key}={write_json(value)}' for key, value in args.items())})"


# --- tags, and formats that are only read ---------------------------------------------------------


def _read_xml(reply: str, *, strict: bool, truncated: bool) -> Parsed:
    reply = reply.partition("<observation>")[0].partition("\nObservation:")[0]
    tool, answer = reply.find("<tool>"), reply.find("<final_answer>")
    begin = min((at for at in (tool, answer) if at >= 0), default=-1)
    before = reply[: max(begin, 0)]
    thought = _thought_before(before)
    if 0 <= tool < answer:
        return malformed("the reply has both a tool and a final answer; give one of them", thought=thought)
    if begin >= 0 and (is_spoken_of(before) or is_within(foreign_spans(reply), begin)):
        return malformed(
            "the call is only quoted; write it on a line of its own if it is meant", thought=thought
        )
    if answer >= 0:
        return final(without_run_on(_within(reply, "final_answer")).strip(), thought=thought)
    name = _within(reply, "tool")
    if tool < 0 or not name.strip():
        return read_react(reply, strict=strict, truncated=truncated)
    if "<tool_input>" not in reply:
        return malformed("the tool has no <tool_input>", thought=thought, tool=tool_name(name) or None)
    if takes_back(reply.rpartition("</tool_input>")[2] if "</tool_input>" in reply else ""):
        return malformed("the call is taken back by what follows; write only what is meant", thought=thought)
    return called(name, _within(reply, "tool_input"), thought=thought, truncated=truncated)


def _thought_before(text: str) -> str:
    try:
        return first_action(text)[0]
    except NoCallError:
        return ""


def _within(text: str, tag: str) -> str:
    """The text between two tags; a stop sequence may have eaten the closing one."""
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]


def _xml_action(name: str, args: JsonValue) -> str:
    given = write_json(args).replace("<", "\\u003c")  # only strings hold one: no tag can appear in them
    return f"<tool>{name}</tool><tool_input>{given}</tool_input>"


def _read_self_ask(reply: str, *, strict: bool, truncated: bool) -> Parsed:
    lines = reply.splitlines()
    for number, line in enumerate(lines):
        label, _, text = line.strip().partition(":")
        text = text.strip()
        match label.lower():
            case "follow up" | "followup":
                return _command("Intermediate Answer", text, lines, number)
            case "so the final answer is":
                return final(text)
            case _:
                pass
    return read_react(reply, strict=strict, truncated=truncated)


def _read_alfworld(reply: str, *, strict: bool, truncated: bool) -> Parsed:
    lines = reply.splitlines()
    for number, line in enumerate(lines):
        prompt, _, command = line.partition(">")
        verb, _, rest = command.strip().partition(" ")
        if not prompt.strip() and verb:
            return _command(verb.rstrip(":"), rest.strip(), lines, number)
    return read_react(reply, strict=strict, truncated=truncated)


def _command(tool: str, given: str, lines: Sequence[str], number: int) -> Parsed:
    """A call that is one line, unless it says what not to do, or the next line takes it back."""
    is_thought = tool.lower() == "think"
    if not is_thought and (denies(f"{tool} {given.partition(' ')[0]}") or not (given or tool)):
        return malformed(no_tool(f"{tool} {given}"))
    if takes_back("\n".join(lines[number + 1 : number + 3])) or is_spoken_of("\n".join(lines[:number])):
        return malformed("the command is quoted or taken back; write only what is meant")
    return Parsed("action", tool=tool, args=given, input=given)


def _read_leaked(reply: str, *, strict: bool, truncated: bool) -> Parsed:
    """A native call that was left in the text, between special tokens or in <tool_call> tags."""
    return (
        read_native(reply) if LEAKS.search(reply) else read_react(reply, strict=strict, truncated=truncated)
    )


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
