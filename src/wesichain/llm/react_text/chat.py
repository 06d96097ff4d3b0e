"""The text of replies from servers other than the model's own provider.

Such a server may leave reasoning, or whole tool calls, in the text. Reasoning at the head is moved to
`reasoning`, by the
marks of the model's family. A text that consists only of calls is either run, or becomes a call without a
name, with a
reason that is returned to the model. Any other text is the answer, whatever it quotes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, NamedTuple

from wesichain.core import LlmResponse, TextChunk, ToolCall, ToolSpec
from wesichain.core.internal import StreamItem, Value, replace
from wesichain.llm.citations import within
from wesichain.llm.families import UNKNOWN, Family, marks_of

from .harmony import begins_answer, read_messages, with_marks
from .native import AROUND_CALLS, CALL_START, INPUT_KEYS, TOOL_KEYS
from .react import Options, read_text
from .reader import Reader, is_named, marker
from .rules import check

_USE_INTERFACE = (
    "Your reply holds a tool call as text, which is not run. Call the tool through the interface for tool "
    "calls, or give the answer alone."
)
_BETWEEN = (
    "Your reply has a mark of reasoning on a line of its own between two texts, so that it is not clear "
    "which of them is the answer. Write the reasoning first, or only the answer."
)


class _Head(NamedTuple):
    """The reasoning at the head of a text, and where the answer begins; None if that is not known yet.

    `messages`: what follows are messages in Harmony's format. `is_open`: the reasoning does not end.
    """

    reasoning: tuple[str, ...]
    at: int | None
    messages: bool = False
    is_open: bool = False


class ChatText(Value):
    """Reads the text of replies to one request.

    `name_of` returns the tool's own name for the name that was sent to the model. If `tools` is empty, calls
    are not looked for; `runs_calls`: the calls that are found are run. `is_opened`: the prompt opens the
    reasoning.
    """

    tools: Sequence[ToolSpec] = ()
    family: Family = UNKNOWN
    is_opened: bool = False
    name_of: Callable[[str], str] = str
    runs_calls: bool = False

    def read(self, response: LlmResponse) -> LlmResponse:
        """The response with reasoning and calls moved out of its text; the same object if there are none."""
        content: Any = response.content
        if not isinstance(content, str):
            return response
        text = with_marks(content) if self.family.name == "harmony" else content
        head = _head_of(text, self.family, is_opened=self.is_opened and not response.reasoning, is_whole=True)
        thoughts, said = [*head.reasoning], text[head.at or 0 :] if head.at is not None else ""
        has_calls = False
        if head.messages:
            messages = read_messages(text, head.at or 0)
            thoughts.append(messages.reasoning)
            said = "\n".join(messages.answers)
            has_calls = bool(messages.calls) and not messages.remark and not messages.answers
            if messages.calls and not has_calls:
                return response  # the answer only shows messages
        if head.reasoning or head.messages or head.is_open:
            said = said.strip()
            reasoning = "\n".join(filter(None, [response.reasoning, *map(str.strip, thoughts)]))
            cited = within(response.citations, content, said)
            response = replace(response, content=said, reasoning=reasoning, citations=cited)
        if _mark_between(said, self.family) is not None:
            return _refused(response, content, _BETWEEN)
        if response.tool_calls or not self.tools or response.finish_reason == "length":
            return response  # calls of a reply that was cut off may be incomplete
        return self._with_calls(response, content, text if has_calls else said, is_message=has_calls)

    async def stream(self, items: AsyncGenerator[StreamItem, None]) -> AsyncGenerator[StreamItem, None]:
        """A streamed reply without reasoning. Text that may be a call is held back until it is decided.

        Whatever is shown is the beginning of the answer.
        """
        text = ChatStream(self)
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

    def _with_calls(self, response: LlmResponse, content: str, text: str, *, is_message: bool) -> LlmResponse:
        """The response, with calls to run or to reject if its text consists only of calls."""
        parsed = read_text(text, Options(family=self.family))
        reply = Reader.of(text)
        if not is_message and any(section.mark == "observation" for section in reply.sections):
            return response  # more than a call: the model made up a result
        is_marked = is_message or bool(_begins_native(_unfenced(text)))
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


# --- the head ---------------------------------------------------------------------------------------


@cache
def _marks(family: Family) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The opening and the closing marks of a family, and either of them alone on its line."""
    opens, closes = marks_of(family.thinking)
    alone = rf"^[ \t]*+(?:{opens.pattern}|{closes.pattern})[ \t]*+$"
    return opens, closes, re.compile(alone, re.IGNORECASE | re.MULTILINE)


_FENCED = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[^\n]*+\n(?:.*?\n)??[ \t]*+\1[`~]*+[ \t]*+$", re.MULTILINE | re.DOTALL
)
_MAY_OPEN = re.compile(r"[<\[\u25c1][^<>\]\u25b7\n]{0,79}\Z")
_SPACE = re.compile(r"\s*+")
_STARTS = ("<|channel|>", "<|start|>")


def _head_of(text: str, family: Family, *, is_opened: bool, is_whole: bool, start: int = 0) -> _Head:
    """Read the blocks of reasoning that begin a text."""
    opens, closes, _ = _marks(family)
    blocks: list[str] = []
    at = 0
    if is_opened:
        closed = _closing(closes, text, start)
        if closed is None:  # the server may have taken the reasoning out
            return _Head((), 0 if is_whole else None)
        blocks.append(text[: closed.start()])
        at = closed.end()
    while True:
        begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text.startswith(_STARTS, begin):
            return _Head(tuple(blocks), begin, messages=True)
        opened = opens.match(text, begin)
        if opened is None:
            is_blank = begin == len(text) < _LONGEST_START
            waits = not is_whole and (is_blank or _MAY_OPEN.match(text, begin))
            return _Head(tuple(blocks), None if waits else at)
        closed = _closing(closes, text, max(opened.end(), start))
        if closed is None:
            return _Head((*blocks, text[opened.end() :]), None, is_open=is_whole)
        blocks.append(text[opened.end() : closed.start()])
        at, start = closed.end(), 0


def _closing(closes: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """The next closing mark that is not only mentioned."""
    return next((found for found in closes.finditer(text, start) if not is_named(text, found)), None)


def _mark_between(text: str, family: Family) -> int | None:
    """Where a mark of reasoning stands on a line of its own between two texts, outside of code blocks."""
    alone = _marks(family)[2]
    if alone.search(text) is None:
        return None
    bare = (
        _FENCED.sub(lambda block: " " * len(block.group()), text) if "```" in text or "~~~" in text else text
    )
    for found in alone.finditer(bare):
        if text[: found.start()].strip() and text[found.end() :].strip():
            return found.start()
    return None


def _unfenced(text: str) -> str:
    return re.sub(r"\A\s*(?:```|~~~)\w*\n", "", text)


# --- streams --------------------------------------------------------------------------------------

_LONGEST_START = 120  # after so many characters, it is decided whether a reply begins as a call
_FIRST_KEY = re.compile(r'(?:```\w*+\s*+)?+[\[\s]*+(?:\{\s*+)++"([^"]{0,40})"')
_CALL_KEYS = frozenset((*TOOL_KEYS, *INPUT_KEYS, "type", "function", "id", "thought"))


class ChatStream:
    """Passes on the text of a reply without its reasoning. Text that begins as a call is held back."""

    def __init__(self, chat: ChatText) -> None:
        self._chat = chat
        self._held: list[str] = []  # the pieces of the head
        self._recent: str = ""  # the end of them, in which the end of a block is looked for
        self._sought = 0  # how far the end of the head was looked for
        self._is_answer = False
        self._start = ""  # the answer so far, until it is decided whether it begins as a call
        self._is_call: bool | None = None
        self._tail: str = ""  # the line that may be a mark
        self._is_stopped = False
        self._is_message = False
        self._is_marked = False
        self._shown: list[str] = []

    def feed(self, piece: str) -> str:
        """The part of this piece, and of the pending text before it, that can be shown."""
        if self._is_stopped:
            return ""
        text = piece if self._is_answer else self._behind_head(piece)
        if text and self._is_call is None:
            text = self._start = self._start + text
            if self._is_marked:
                text = text.lstrip()
            self._is_call = self._begins_call(text)
        if self._is_call is not False:
            return ""
        said = self._settled(text)
        self._shown.append(said)
        return said

    def rest_of(self, content: str) -> str:
        """The part of the complete answer after the text that was shown; "" if that is not its beginning."""
        shown = "".join(self._shown)
        return content[len(shown) :] if content.startswith(shown) else ""

    def _behind_head(self, piece: str) -> str:
        """The text behind the head, if it has ended."""
        self._held.append(piece)
        family = self._chat.family
        closes = _marks(family)[1]
        if self._sought:
            recent, self._recent = self._recent + piece, (self._recent + piece)[-_LONGEST_START:]
            if closes.search(recent) is None:
                return ""  # the block goes on
        text = "".join(self._held)
        if family.name == "harmony" and text.lstrip().startswith("analysis"[: len(text.lstrip())]):
            return ""
        head = _head_of(
            text, family, is_opened=self._chat.is_opened, is_whole=False, start=max(0, self._sought - 100)
        )
        is_begun = bool(head.reasoning) or self._chat.is_opened
        self._sought, self._recent = (
            (len(text), text[-_LONGEST_START:]) if head.at is None and is_begun else (0, "")
        )
        if head.at is None:
            return ""
        at: int | None = head.at
        if head.messages:
            at = begins_answer(text, head.at)
            self._is_message = at is not None
        if at is None:
            return ""
        self._is_answer, self._is_marked = True, bool(head.reasoning) or head.messages
        return text[at:]

    def _settled(self, text: str) -> str:
        """The text up to what may be a mark that makes the answer unclear, or end it."""
        text = self._tail + text
        if self._is_message and (end := text.find("<|")) >= 0:
            self._is_stopped = True
            return text[:end].rstrip()
        end = len(text)
        line = text.rfind("\n") + 1
        if _MAY_BE_MARK.match(text, line):
            end = line
        if (between := _mark_between(f"x\n{text}x", self._chat.family)) is not None and between - 2 < end:
            self._is_stopped, end = True, max(0, between - 2)
        if self._is_marked:  # the whole answer is stripped then
            end = len(text[:end].rstrip())
        self._tail = text[end:]
        return text[:end]

    def _begins_call(self, text: str) -> bool | None:
        """Whether a text begins as a call; None if more text is needed."""
        start = text.lstrip()
        undecided = None if len(start or text) < _LONGEST_START else False
        if not start:
            return undecided
        if not self._chat.tools:
            return False
        if start[0] in "{[`":
            if key := _FIRST_KEY.match(start):
                return key[1] in _CALL_KEYS
            return undecided if undecided is None else bool(_begins_native(start))
        if start[0] == "<":
            is_tag = "\n" in start or ">" in start or undecided is False
            return _begins_native(start) if is_tag else None
        if found := marker(start):
            return found == "action"
        return undecided if "action".startswith(start.strip("*# \t0123456789").lower()) else False


_MAY_BE_MARK = re.compile(r"[ \t]{0,80}+(?:[<\[\u25c1][^\n]{0,79})?+\Z")


def _begins_native(text: str) -> bool | None:
    """Whether a text begins as a native call, complete or not; None if it only has marks around calls."""
    found = CALL_START.search(text)
    if AROUND_CALLS.sub("", text[: found.start()] if found else text).strip():
        return False
    return True if found else None
