"""The text of replies from servers other than the model's own provider.

Such a server may leave reasoning, or whole tool calls, in the text. Reasoning is moved to `reasoning`. A text
that consists only of calls is either run, or becomes a call without a name, with a reason that is returned to
the model. Any other text is the answer.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from wesichain.core import LlmResponse, TextChunk, ToolCall, ToolSpec
from wesichain.core.internal import StreamItem, Value, replace
from wesichain.llm.citations import within
from wesichain.llm.react_text.dialects import REACT, read_reply
from wesichain.llm.react_text.native import AROUND_CALLS, CALL_START, INPUT_KEYS, TOOL_KEYS
from wesichain.llm.react_text.reasoning import ReasonedText, ReasoningFilter, ReasoningStyle, split_reasoning
from wesichain.llm.react_text.rules import check
from wesichain.llm.react_text.structure import TextReply, marker

_USE_INTERFACE = (
    "Your reply holds a tool call as text, which is not run. Call the tool through the interface for tool "
    "calls, or give the answer alone."
)


class ForeignText(Value):
    """Reads the text of replies to one request.

    `name_of` returns the tool's own name for the name that was sent to the model. If `tools` is empty, calls
    are not looked for; `runs_calls`: the calls that are found are run.
    """

    tools: Sequence[ToolSpec]
    style: ReasoningStyle
    name_of: Callable[[str], str] = str
    runs_calls: bool = False

    def read(self, response: LlmResponse) -> LlmResponse:
        """The response with reasoning and calls moved out of its text; the same object if there are none."""
        content: Any = response.content
        if not isinstance(content, str):
            return response
        reasoned = split_reasoning(content, self.style)
        if reasoned.lead and not reasoned.is_final:
            reasoned = ReasonedText(content)  # the answer only mentions channels
        if reasoned.text != content:
            thoughts = "\n".join(filter(None, [response.reasoning, reasoned.reasoning]))
            said = reasoned.text or reasoned.remark
            cited = within(response.citations, content, said)
            response = replace(response, content=said, reasoning=thoughts, citations=cited)
        if response.tool_calls or not self.tools or response.finish_reason == "length":
            return response  # calls of a reply that was cut off may be incomplete
        return self._with_calls(response, content, is_message=bool(reasoned.calls) and not reasoned.remark)

    async def stream(self, items: AsyncGenerator[StreamItem, None]) -> AsyncGenerator[StreamItem, None]:
        """A streamed reply without reasoning. Text that may be a call is held back until it is decided.

        Reasoning that began in the prompt is only known at its end; until then it is passed on, unless the
        model's `style` is known from an earlier reply or declared by its client.
        """
        text = _TextStream(self.style, has_tools=bool(self.tools))
        async with aclosing(items):
            async for item in items:
                if isinstance(item, TextChunk):
                    if piece := text.feed(item.text):
                        yield TextChunk(piece)
                elif isinstance(item, LlmResponse):
                    response = self.read(item)
                    if rest := text.rest_of(response.content):
                        yield TextChunk(rest)
                    yield response
                else:
                    yield item

    def _with_calls(self, response: LlmResponse, content: str, *, is_message: bool) -> LlmResponse:
        """The response, with calls to run or to reject if its text consists only of calls."""
        text = content if is_message else response.content
        parsed = read_reply(text, REACT, strict=True, truncated=False)
        reply = TextReply(text)
        if not is_message and any(section.mark == "observation" for section in reply.sections):
            return response  # more than a call: the model made up a result
        is_marked = is_message or _begins_native(reply.text)
        if parsed.kind == "action" and not is_message:
            named = {self.name_of(call.name) for call in parsed.calls}
            is_known = is_marked or named <= {tool.name for tool in self.tools}
            if parsed.remark or parsed.thought or not is_known:
                return response
        elif not is_marked:
            return response
        if not self.runs_calls:
            return _refused(response, content, _USE_INTERFACE)
        calls = tuple(replace(call, name=self.name_of(call.name)) for call in parsed.calls)
        checked = check(replace(parsed, calls=calls), self.tools)
        if checked.kind != "action":
            why = f"Your reply holds a tool call that cannot be run: {checked.reason}."
            return _refused(response, content, why)
        made = tuple(ToolCall("", call.name, call.args) for call in checked.calls)
        return replace(response, content="", tool_calls=made, finish_reason="tool_calls")


def _refused(response: LlmResponse, content: str, why: str) -> LlmResponse:
    return replace(response, tool_calls=(ToolCall("", "", content),), reasoning=why)


# --- streams --------------------------------------------------------------------------------------

_LONGEST_START = 120  # after so many characters, it is decided whether a reply begins as a call
_FIRST_KEY = re.compile(r'(?:```\w*+\s*+)?+[\[\s]*+(?:\{\s*+)++"([^"]{0,40})"')
_CALL_KEYS = frozenset((*TOOL_KEYS, *INPUT_KEYS, "type", "function", "id", "thought"))


class _TextStream:
    """Passes on the text of a reply without its reasoning. Text that begins as a call is held back."""

    def __init__(self, style: ReasoningStyle, *, has_tools: bool) -> None:
        self._reasoning = ReasoningFilter(style)
        self._start = ""  # the text so far, until it is decided whether it begins as a call
        self._is_call: bool | None = None
        self._may_call = has_tools
        self._shown: list[str] = []

    def feed(self, piece: str) -> str:
        """The part of this piece, and of the pending text before it, that can be shown."""
        text = self._reasoning.feed(piece)
        if self._is_call is None:
            text = self._start = self._start + text
            self._is_call = self._begins_call(text)
            if self._reasoning.is_marked:
                text = text.lstrip()
        if self._is_call is not False:
            return ""
        self._shown.append(text)
        return text

    def rest_of(self, content: str) -> str:
        """The part of the complete answer after the text that was shown; "" if that is not its beginning."""
        shown = "".join(self._shown)
        return content[len(shown) :] if content.startswith(shown) else ""

    def _begins_call(self, text: str) -> bool | None:
        """Whether a text begins as a call; None if more text is needed."""
        start = text.lstrip()
        undecided = None if len(start or text) < _LONGEST_START else False
        if not start:
            return undecided
        if not self._may_call:
            return False
        if start[0] in "{[`":
            if key := _FIRST_KEY.match(start):
                return key[1] in _CALL_KEYS
            return undecided if undecided is None else _begins_native(start)
        if start[0] == "<":
            is_tag = "\n" in start or ">" in start or undecided is False
            return _begins_native(start) if is_tag else None
        if found := marker(start):
            return found[0] == "action"
        return undecided if "action".startswith(start.strip("*# \t0123456789").lower()) else False


def _begins_native(text: str) -> bool | None:
    """Whether a text begins as a native call, complete or not; None if it only has marks around calls."""
    found = CALL_START.search(text)
    if AROUND_CALLS.sub("", text[: found.start()] if found else text).strip():
        return False
    return True if found else None
