"""Leaks: reasoning and tool calls that a server left in the text of a reply, read as what they are.

A server knows the forms of some models and leaves those of others in the text, where they would pass for
the answer. What can be read becomes reasoning and calls; what was begun as a call and cannot be read is
refused, as a call without a name whose reason the runtime tells the model. Other text is not touched.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from wesichain.core import (
    JsonValue,
    LlmResponse,
    StreamItem,
    TextChunk,
    ToolCall,
    ToolSpec,
    is_object,
    parse_json,
)
from wesichain.errors import CodecError
from wesichain.llm.react_text.doubt import takes_back
from wesichain.llm.react_text.native import INPUT_KEYS, LEAKS, TOOL_KEYS, Leak, NoCallError, native_calls
from wesichain.llm.react_text.react import is_spoken_of, read_react
from wesichain.llm.react_text.signature import takes_text
from wesichain.llm.react_text.speech import Habit, Quiet
from wesichain.llm.react_text.thinking import MARK, without_blocks

_SUSPECT = re.compile(
    rf"{MARK.pattern}|{LEAKS.pattern}|<\|(?:channel|message)\|>"
    r"|^(?:```(?:json)?[ \t]*+\n)?+[ \t]*+\{|^analysis|^[ \t*]*+Action[ \t]*+:",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_JSON_LINE = re.compile(r"^(?:```(?:json)?\s*+)?+(?=\{)", re.MULTILINE)


def read_leaks(
    response: LlmResponse,
    tools: Sequence[ToolSpec],
    name_of: Callable[[str], str] = str,
    *,
    habit: Habit | None = None,
) -> LlmResponse:
    """The response with what leaked into its text in its place; the same object if nothing did.

    `name_of` gives the tool's own name for the one that the model was shown. The `habit` learns from it.
    """
    content: Any = response.content
    if not isinstance(content, str) or not _is_suspect(content):
        return response
    heard = without_blocks(content)
    if heard.said != content or heard.calls:
        if habit is not None:
            habit.learn(content)
        reasoning = "\n".join(filter(None, [response.reasoning, heard.reasoning]))
        response = replace(response, content="" if heard.is_open else heard.said, reasoning=reasoning)
    if response.tool_calls or not tools or response.finish_reason == "length":
        return response  # of a reply that was cut, no call is known to be whole
    try:
        calls = _calls(response.content, heard.calls, tools, name_of)
    except NoCallError as error:
        return _refused(response, str(error))
    if not calls:
        return response
    mark = LEAKS.search(response.content)
    before = response.content[: min(mark.start() if mark else calls[0].start, calls[0].start)].strip()
    made = tuple(ToolCall("", call.name, call.args) for call in calls)
    return replace(response, content=before, tool_calls=made, finish_reason="tool_calls")


def _is_suspect(content: str) -> bool:
    # Most answers have none of these signs: 7 us for 5,000 characters, where the expression takes 530.
    signs = ("<", "{", "[", "\u25c1", "ction")
    may_be = any(sign in content for sign in signs) or content.lstrip().startswith("analysis")
    return may_be and _SUSPECT.search(content) is not None


async def sift_leaks(
    items: AsyncGenerator[StreamItem, None],
    tools: Sequence[ToolSpec],
    name_of: Callable[[str], str] = str,
    *,
    habit: Habit | None = None,
) -> AsyncGenerator[StreamItem, None]:
    """A streamed reply without what leaks: it is held back while it comes, and read when it is whole.

    Thinking whose beginning stood in the prompt shows only at its end; what came before it was told by then,
    unless the model's `habit` is known: from an earlier reply, or because its client says so.
    """
    sieve = _Sieve(habit or Habit(), has_tools=bool(tools))
    async with aclosing(items):
        async for item in items:
            if isinstance(item, TextChunk):
                if text := sieve.take(item.text):
                    yield TextChunk(text)
            elif isinstance(item, LlmResponse):
                whole = read_leaks(item, tools, name_of)
                if rest := sieve.rest_of(whole.content):
                    yield TextChunk(rest)
                yield whole
            else:
                yield item


def _calls(
    text: str,
    channelled: Sequence[tuple[str, str]],
    tools: Sequence[ToolSpec],
    name_of: Callable[[str], str],
) -> list[Leak]:
    specs = {tool.name: tool for tool in tools}
    if channelled:
        return [Leak(name_of(name), _object(given, name), len(text), len(text)) for name, given in channelled]
    if found := LEAKS.search(text):
        if is_spoken_of(text[: found.start()]):
            return []  # an answer that speaks of such calls
        calls = native_calls(text)
        if takes_back(text[calls[-1].end :]):
            raise NoCallError("the call is taken back by what follows")
        return [_typed(replace(call, name=name_of(call.name)), specs) for call in calls]
    return _bare(text, specs, name_of)


def _bare(text: str, specs: dict[str, ToolSpec], name_of: Callable[[str], str]) -> list[Leak]:
    """A call in JSON, or in the lines of text ReAct, with which the reply ends: of an offered tool alone."""
    line = _JSON_LINE.search(text)
    if line is not None:
        try:
            (call,) = native_calls(f"<tool_call>{text[line.end() :]}")
        except NoCallError:
            return []  # JSON may be the answer
        name = name_of(call.name)
        if name not in specs or is_spoken_of(text[: line.start()]):
            return []
        return [replace(call, name=name, start=line.start())]
    parsed = read_react(text)
    name = name_of(parsed.tool or "")
    if parsed.kind != "action" or name not in specs or not is_object(parsed.args):
        return []
    return [Leak(name, parsed.args, 0, len(text))]


def _typed(call: Leak, specs: dict[str, ToolSpec]) -> Leak:
    """Values that were written as bare text, as what the tool takes them for."""
    spec = specs.get(call.name)
    if not call.raw or spec is None or not is_object(call.args):
        return call
    args = {key: _value(value, spec, key) for key, value in call.args.items()}
    return replace(call, args=args)


def _value(value: JsonValue, spec: ToolSpec, key: str) -> JsonValue:
    if not isinstance(value, str) or takes_text(spec, key):
        return value
    try:
        parsed: JsonValue = parse_json(value)
    except CodecError:
        return value
    return parsed


def _object(given: str, name: str) -> JsonValue:
    try:
        value: JsonValue = parse_json(given) if given.strip() else {}
    except CodecError as error:
        raise NoCallError(f"the input of {name!r} cannot be read ({error})") from None
    return value


def _refused(response: LlmResponse, why: str) -> LlmResponse:
    said = response.content
    return replace(
        response,
        tool_calls=(ToolCall("", "", said),),
        reasoning=f"Your reply holds a tool call that could not be read: {why}. Call the tool again, with "
        f"its name and all of its arguments as one JSON object, and write nothing after it; or give the "
        f"answer alone.",
    )


# --- while it comes -------------------------------------------------------------------------------

_BEGUN = re.compile(r"[<\[\u25c1][^<>\]]{0,63}$")  # the end of what came so far may become a mark
_FIRST_KEY = re.compile(r'\s*+(?:```\w*+\s*+)?+\{+\s*+"([^"]{0,40})"')
_FIRST_KEY_WITHIN = 120  # characters
_CALL_KEYS = frozenset((*TOOL_KEYS, *INPUT_KEYS, "type", "function", "id", "thought"))


class _Sieve:
    """Passes on the text of a reply, but no thinking, and nothing from where a call begins. Linear."""

    def __init__(self, habit: Habit, *, has_tools: bool) -> None:
        self._quiet = Quiet(habit)
        self._held: str = ""  # what may become a call
        self._shown: list[str] = []
        self._lead: str = ""
        self._is_over = False  # a call has begun: the whole response will tell
        self._may_be_json = has_tools

    def take(self, piece: str) -> str:
        """The part of this piece, and of the text held back before it, that can be shown."""
        text = self._held + self._quiet.hear(piece)
        if self._is_over:
            return ""
        if self._may_be_json and not self._looks_like_text(text):
            self._held = text
            return ""
        self._may_be_json = False
        if call := LEAKS.search(text):
            self._is_over, self._held = True, ""
            return self._show(text[: call.start()])
        begun = _BEGUN.search(text, max(0, len(text) - 64))
        end = begun.start() if begun else len(text)
        self._held = text[end:]
        return self._show(text[:end])

    def rest_of(self, content: str) -> str:
        """The part of the whole answer not shown yet; empty, if the text shown is not its beginning."""
        shown = "".join(self._shown)
        return content[len(shown) :] if content.startswith(shown) else ""

    def _looks_like_text(self, text: str) -> bool:
        """Whether the reply is known not to be a call in bare JSON."""
        start = text.lstrip()
        if not start:
            return len(text) > _FIRST_KEY_WITHIN
        if start[0] == "`" and len(start) < 12 and "{" not in start:
            return False
        if start[0] not in "{`":
            return True
        key = _FIRST_KEY.match(text)
        if key is None:
            return len(text) > _FIRST_KEY_WITHIN or (start[0] == "`" and "{" not in start)
        if key[1] not in _CALL_KEYS:
            return True
        self._is_over = True
        return False

    def _show(self, text: str) -> str:
        """The text, with the blanks at the start of the reply only once something follows them."""
        if not self._shown:
            text = self._lead + text
            if not text.strip() and len(text) < _FIRST_KEY_WITHIN:
                self._lead = text
                return ""
            if self._quiet.is_marked:
                text = text.lstrip()
        if text:
            self._shown.append(text)
        return text
