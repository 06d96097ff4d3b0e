"""RunFiles: a workspace for each run, computed from the run's log and so stored with it; its long results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from threading import RLock
from typing import Any

from typing_extensions import override

from wesichain.context import CountTokens, estimate_tokens
from wesichain.core import Message, Role, ToolCall
from wesichain.core.internal import Value
from wesichain.errors import ConfigError, ToolError
from wesichain.tools import RunContext

from .files import FileLimits, Files, MemoryFiles, parts_of

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
        if call is None:
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


# --- long results -----------------------------------------------------------------------------------

_LEAST = 100  # tokens: less would be the words on the file alone
# What a tool reads from files is in files already.
READING = frozenset({"list_files", "read_file", "search_files", "read_skill"})


class LongResults(Value):
    """The results of more than `over_tokens`."""

    over_tokens: int = 2_000
    count_tokens: CountTokens = estimate_tokens

    def __post_init__(self) -> None:
        if type(self.over_tokens) is not int or self.over_tokens < _LEAST:
            raise ConfigError(f"over_tokens={self.over_tokens!r}: use {_LEAST} tokens or more")

    def include(self, text: str, tool_name: str) -> bool:
        """Whether the result of a tool is stored in a file."""
        return tool_name not in READING and self.count_tokens(text) > self.over_tokens

    def include_message(self, message: Message, tool_name: str) -> bool:
        """Whether the result in a message is stored in a file; errors are not."""
        return (
            message.role is Role.TOOL
            and not message.is_error
            and isinstance(message.content, str)
            and self.include(message.content, tool_name)
        )

    def beginning(self, text: str, note: str) -> str:
        """Return as much of a text as fits into `over_tokens` together with a note at its end."""
        kept = len(text)
        while kept and (tokens := self.count_tokens(text[:kept] + note)) > self.over_tokens:
            kept = min(kept - 1, kept * self.over_tokens // tokens)
        return text[:kept] + note


def result_path(text: str) -> str:
    """The path of a result in the workspace: the same text has the same path, in any run and attempt."""
    return f"results/{sha256(text.encode(errors='replace')).hexdigest()[:16]}.txt"
