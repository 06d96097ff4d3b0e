"""RunFiles: a workspace for each run, made from the log of the run and stored with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Message, Role, ToolCall
from wesichain.errors import ToolError
from wesichain.tools import RunContext

from .files import FileLimits, Files, MemoryFiles
from .long_results import LongResults, result_path
from .paths import parts_of

_CHANGES = ("write_file", "edit_file")


class RunFiles:
    """Gives every run a workspace of its own: the files as the calls in the run's log have left them.

    It is a function of the run's context, as `Workspace` and `Offload` take it. Nothing is kept beside the
    log, so that a run that is resumed in another process has its files there. What the calls of one reply
    write is read by those of the next; one reply changes a file once.
    """

    def __init__(self, *, over_tokens: int = 2_000, limits: FileLimits | None = None) -> None:
        self._long = LongResults(over_tokens)
        self._limits = limits

    def __call__(self, ctx: RunContext[Any]) -> Files:
        return _LoggedFiles(ctx.messages, getattr(ctx, "call_id", ""), self._long, self._limits)


class _LoggedFiles(Files):
    """The files that the messages of a run amount to, for one call."""

    def __init__(
        self, messages: Sequence[Message], call_id: str, long: LongResults, limits: FileLimits | None
    ) -> None:
        self._written = MemoryFiles(limits=limits)
        self._long = long
        self._results: list[tuple[Message, str]] = []  # with the names of their tools
        self._changing: set[tuple[str, ...]] = set()  # by calls of the same reply, before this one
        calls: dict[str, ToolCall] = {}
        for message in messages:
            calls |= {call.id: call for call in message.tool_calls}
            call = calls.get(message.tool_call_id or "")
            if message.role is not Role.TOOL or call is None:
                continue
            if call.name in _CHANGES and not message.is_error:
                self._change(call.args)
            else:
                self._results.append((message, call.name))
        reply = next((m.tool_calls for m in reversed(messages) if m.role is Role.ASSISTANT), ())
        for call in reply if any(call.id == call_id for call in reply) else ():
            if call.id == call_id:
                break
            if call.name in _CHANGES and isinstance(call.args, dict):
                self._changing.add(parts_of(str(call.args["path"])))

    def _change(self, args: Any) -> None:
        """Do again what a call has done: it went well then, and so it does now."""
        path = args["path"]
        text = args.get("text")
        if text is None:
            text = self._written.read(path).replace(args["old"], args["new"])
        self._written.write(path, text)

    @override
    def sizes(self) -> dict[str, int]:
        results = {result_path(text): len(text.encode()) for text in self._kept()}
        return dict(sorted((results | self._written.sizes()).items()))

    @override
    def read(self, path: str) -> str:
        try:
            return self._written.read(path)
        except ToolError:
            found = next((text for text in self._kept() if result_path(text) == path), None)
            if found is None:
                raise
            return found

    def _kept(self) -> Iterator[str]:
        """The long results, the newest first: it is mostly those that are read."""
        for message, tool_name in reversed(self._results):
            if self._long.include_message(message, tool_name):
                yield message.text

    @override
    def write(self, path: str, text: str) -> None:
        if parts_of(path) in self._changing:
            raise ToolError(f"another call of the same reply changes {path!r}; change it in the next step")
        self._written.write(path, text)
