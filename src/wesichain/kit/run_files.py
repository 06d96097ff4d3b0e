"""RunFiles: a workspace for each run, which is computed from the run's log and so stored with it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any

from typing_extensions import override

from wesichain.core import Message, Role, ToolCall
from wesichain.errors import ToolError
from wesichain.tools import RunContext

from .files import FileLimits, Files, MemoryFiles
from .long_results import LongResults, result_path
from .paths import parts_of

_CHANGES = ("write_file", "edit_file")
_RUNS = 16  # whose files are kept in memory; those of others are made anew from their logs


class RunFiles:
    """Gives every run a workspace of its own: the files as the calls in the run's log have left them.

    It is a function of the run's context, as `Workspace` and `Offload` accept. Nothing is stored beside the
    log, so that a run that is resumed in another process has its files there. What the calls of one reply
    write can be read from the next reply on; one reply can change a file once.
    """

    def __init__(self, *, over_tokens: int = 2_000, limits: FileLimits | None = None) -> None:
        self._long = LongResults(over_tokens)
        self._limits = limits
        self._folders: OrderedDict[tuple[str, ...], _Folder] = OrderedDict()  # the newest last
        self._lock = RLock()

    def __call__(self, ctx: RunContext[Any]) -> Files:
        messages, run = ctx.messages, (ctx.correlation_id, *ctx.scope)
        with self._lock:
            folder = self._folders.pop(run, None)
            if folder is None or not folder.is_of(messages):
                folder = _Folder(self._long, self._limits)
            folder.follow(messages)
            self._folders[run] = folder
            if len(self._folders) > _RUNS:
                self._folders.popitem(last=False)
            return _CallFiles(folder, _changing(messages, getattr(ctx, "call_id", "")))


class _Folder:
    """The files that result from the calls in a log. An update costs what is new in the log."""

    def __init__(self, long: LongResults, limits: FileLimits | None) -> None:
        self.written = MemoryFiles(limits=limits)
        self.results: dict[str, str] = {}
        self._long = long
        self._calls: dict[str, ToolCall] = {}
        self._count = 0
        self._last: Message | None = None

    def is_of(self, messages: Sequence[Message]) -> bool:
        """Whether these messages begin with those that the files were computed from."""
        return 0 < self._count <= len(messages) and messages[self._count - 1] is self._last

    def follow(self, messages: Sequence[Message]) -> None:
        """Apply the calls that are new in the log."""
        for place in range(self._count, len(messages)):
            self._add(messages[place])
        self._count = len(messages)
        self._last = messages[-1] if messages else None

    def _add(self, message: Message) -> None:
        self._calls |= {call.id: call for call in message.tool_calls}
        call = self._calls.get(message.tool_call_id or "")
        if message.role is not Role.TOOL or call is None:
            return
        if call.name in _CHANGES and not message.is_error:
            self._change(call.args)
        elif self._long.include_message(message, call.name):
            self.results[result_path(message.text)] = message.text

    def _change(self, args: Any) -> None:
        """Apply a call again, without the checks that it has passed."""
        path, text = args["path"], args.get("text")
        if text is None:
            text = self.read(path).replace(args["old"], args["new"])
        self.written.put(path, text)

    def read(self, path: str) -> str:
        try:
            return self.written.read(path)
        except ToolError:
            if path not in self.results:
                raise
            return self.results[path]


class _CallFiles(Files):
    """The files of a run, for one of its calls. What the call writes appears with its result in the log."""

    def __init__(self, folder: _Folder, changing: set[tuple[str, ...]]) -> None:
        self._folder = folder
        self._changing = changing

    @override
    def sizes(self) -> dict[str, int]:
        results = {path: len(text.encode()) for path, text in [*self._folder.results.items()]}
        return dict(sorted((results | self._folder.written.sizes()).items()))

    @override
    def read(self, path: str) -> str:
        return self._folder.read(path)

    @override
    def write(self, path: str, text: str) -> None:
        if parts_of(path) in self._changing:
            raise ToolError(f"another call of the same reply changes {path!r}; change it in the next step")
        self._folder.written.check(path, text)


def _changing(messages: Sequence[Message], call_id: str) -> set[tuple[str, ...]]:
    """The files that other calls of the same reply, which come before this one, are to change."""
    reply = next((m.tool_calls for m in reversed(messages) if m.role is Role.ASSISTANT), ())
    ids = [call.id for call in reply]
    changing: set[tuple[str, ...]] = set()
    for call in reply[: ids.index(call_id)] if call_id in ids else ():
        if call.name in _CHANGES and isinstance(call.args, dict):
            with suppress(ToolError):  # a path that names no file: that call fails
                changing.add(parts_of(str(call.args.get("path", ""))))
    return changing
