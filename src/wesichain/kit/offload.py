"""Offload: stores long results in files; requests contain their beginning and their path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from wesichain.agent import Capability
from wesichain.context import CountTokens, VisibleLog, estimate_tokens
from wesichain.core import Message, ToolCall
from wesichain.core.internal import Cut, Value, replace, text_of
from wesichain.errors import ToolError
from wesichain.middleware import CallTool, Middleware
from wesichain.tools import ToolContext, ToolResult

from .files import Files
from .run_files import LongResults, RunFiles, result_path
from .workspace import FilesOf, files_of


class Offload(Capability):
    """Stores results of more than `over_tokens` in files, and sends the model their beginning.

    The log of the run contains the complete result; requests contain at most `over_tokens` of it, with its
    size and its path in the workspace. `files` are the files of the agent's `Workspace`, whose tools can read
    the stored results; the results of these tools are never offloaded.
    """

    def __init__(
        self,
        files: Files | FilesOf,
        over_tokens: int = 2_000,
        *,
        count_tokens: CountTokens = estimate_tokens,
    ) -> None:
        long = LongResults(over_tokens, count_tokens)
        self.context = (OffloadView(long),)
        if not isinstance(files, RunFiles):  # computed from the log, which contains every result
            self.middleware = (_OffloadResults(files_of(files), long),)


class OffloadView(Value):
    """A context view that replaces every long result by its beginning, its size and its path."""

    long: LongResults

    @property
    def count_tokens(self) -> CountTokens:
        return self.long.count_tokens

    @property
    def inactive_below_tokens(self) -> int:
        return self.long.over_tokens

    @property
    def name(self) -> str:
        return "Offload"

    def reduce(self, seen: VisibleLog) -> Sequence[Cut] | None:
        results = [item for item in seen.tool_results() if item[2] > self.long.over_tokens]
        if not results:
            return None
        tools = {call.id: call.name for message in seen.messages for call in message.tool_calls}
        return [
            Cut(place, place + 1, (self._shortened(message),))
            for place, message, _ in results
            if self.long.include_message(message, tools.get(message.tool_call_id or "", ""))
        ]

    def _shortened(self, message: Message) -> Message:
        text = message.text
        path = result_path(text)
        note = f"\n[This is the beginning of {len(text)} characters. All of them are in the file {path!r}.]"
        return replace(message, content=self.long.beginning(text, note))


class _OffloadResults(Middleware):
    """Writes long results to files when they arrive."""

    def __init__(self, files: FilesOf, long: LongResults) -> None:
        self._files_of = files
        self._long = long

    @override
    async def wrap_tool(self, ctx: ToolContext[Any], call: ToolCall, call_next: CallTool) -> ToolResult:
        result = await call_next(call)
        if result.error is not None or result.parts:
            return result
        text = text_of(result.value)
        if not self._long.include(text, call.name):
            return result
        try:
            self._files_of(ctx).write(result_path(text), text)
        except ToolError as error:  # the call itself has succeeded
            note = (
                f"\n[This is the beginning of {len(text)} characters; the rest could not be stored: {error}]"
            )
            return replace(result, value=self._long.beginning(text, note))
        return result
