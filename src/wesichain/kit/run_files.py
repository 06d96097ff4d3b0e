"""RunFiles: a workspace for each run, computed from the run's log, and the rules for its long results."""

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
from .workspace import replaced

_WRITING_TOOLS = ("write_file", "edit_file")
_MAX_RUNS = 16  # whose files are cached; those of other runs are computed again from their logs


class RunFiles:
    """Gives every run its own workspace: the files that result from the calls in the run's log.

    An instance is a function of the run's context, as `Workspace` and `Offload` accept. Nothing is stored
    outside the log, so a run that is resumed in another process has its files there. Files that the calls of
    one reply write can be read from the next reply on; one reply can change a file only once.
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
            if folder is None or not folder.was_computed_from(messages):
                folder = _Folder(self._long, self._limits)
            folder.update(messages)
            self._folders[run] = folder
            if len(self._folders) > _MAX_RUNS:
                self._folders.popitem(last=False)
            return _CallFiles(folder, _earlier_writes(messages, getattr(ctx, "call_id", "")))


class _Folder:
    """The files that result from the calls in a log. The cost of an update is that of the new messages."""

    def __init__(self, long: LongResults, limits: FileLimits | None) -> None:
        self.written = MemoryFiles(limits=limits)
        self.results: dict[str, str] = {}
        self._long = long
        self._calls: dict[str, ToolCall] = {}
        self._count = 0
        self._last: Message | None = None

    def was_computed_from(self, messages: Sequence[Message]) -> bool:
        """Whether the files were computed from the beginning of these messages."""
        return 0 < self._count <= len(messages) and messages[self._count - 1] is self._last

    def update(self, messages: Sequence[Message]) -> None:
        """Apply the calls in the new messages of the log."""
        for place in range(self._count, len(messages)):
            self._apply(messages[place])
        self._count = len(messages)
        self._last = messages[-1] if messages else None

    def _apply(self, message: Message) -> None:
        self._calls |= {call.id: call for call in message.tool_calls}
        call = self._calls.get(message.tool_call_id or "")
        if call is None:
            return
        if call.name in _WRITING_TOOLS and not message.is_error:
            self._write(call.args)
        elif self._long.include_message(message, call.name):
            self.results[result_path(message.text)] = message.text

    def _write(self, args: Any) -> None:
        """Apply a recorded call, without checking it again."""
        path, text = args["path"], args.get("text")
        if text is None:
            text = self.read(path).replace(args["old"], args["new"])
        self.written.put(path, text)

    def try_write(self, files: MemoryFiles, args: Any) -> None:
        """Apply a call to a copy of the files, as its tool does."""
        path, text = args["path"], args.get("text")
        files.write(path, replaced(self.read(path), path, args["old"], args["new"]) if text is None else text)

    def read(self, path: str) -> str:
        try:
            return self.written.read(path)
        except ToolError:
            if path not in self.results:
                raise
            return self.results[path]


class _CallFiles(Files):
    """The files of a run, for one of its calls. A write takes effect when the call's result is in the log.

    The limits hold for all calls of one reply together: those before this one count as if they were written.
    """

    def __init__(self, folder: _Folder, earlier: Sequence[Any]) -> None:
        self._folder = folder
        self._earlier = earlier  # the arguments of the writing calls before this one

    @override
    def sizes(self) -> dict[str, int]:
        results = {path: len(text.encode()) for path, text in [*self._folder.results.items()]}
        return dict(sorted((results | self._folder.written.sizes()).items()))

    @override
    def read(self, path: str) -> str:
        return self._folder.read(path)

    @override
    def write(self, path: str, text: str) -> None:
        files = self._folder.written.copy()
        changed: set[tuple[str, ...]] = set()
        for args in self._earlier:
            with suppress(ToolError, KeyError, TypeError):  # invalid arguments: that call fails
                changed.add(parts_of(args["path"]))
                self._folder.try_write(files, args)
        if parts_of(path) in changed:
            raise ToolError(f"another call of the same reply changes {path!r}; change it in the next step")
        files.check(path, text)


def _earlier_writes(messages: Sequence[Message], call_id: str) -> list[Any]:
    """Return the arguments of the calls of the same reply that write files before this one."""
    reply = next((m.tool_calls for m in reversed(messages) if m.role is Role.ASSISTANT), ())
    ids = [call.id for call in reply]
    before = reply[: ids.index(call_id)] if call_id in ids else ()
    return [call.args for call in before if call.name in _WRITING_TOOLS]


# --- long results -----------------------------------------------------------------------------------

_MIN_TOKENS = 100  # fewer would leave room only for the note
# These tools read from files, so their results are stored already.
READING_TOOLS = frozenset({"list_files", "read_file", "search_files", "read_skill"})


class LongResults(Value):
    """The rule for results of more than `over_tokens`, which are stored in files."""

    over_tokens: int = 2_000
    count_tokens: CountTokens = estimate_tokens

    def __post_init__(self) -> None:
        if type(self.over_tokens) is not int or self.over_tokens < _MIN_TOKENS:
            raise ConfigError(f"over_tokens={self.over_tokens!r}: use {_MIN_TOKENS} tokens or more")

    def include(self, text: str, tool_name: str) -> bool:
        """Whether the result of a tool is stored in a file."""
        return tool_name not in READING_TOOLS and self.count_tokens(text) > self.over_tokens

    def include_message(self, message: Message, tool_name: str) -> bool:
        """Whether the result in a message is stored in a file; errors are not."""
        return (
            message.role is Role.TOOL
            and not message.is_error
            and isinstance(message.content, str)
            and self.include(message.content, tool_name)
        )

    def beginning(self, text: str, note: str) -> str:
        """Return the beginning of a text and a note, together at most `over_tokens`."""
        kept = len(text)
        while kept and (tokens := self.count_tokens(text[:kept] + note)) > self.over_tokens:
            kept = min(kept - 1, kept * self.over_tokens // tokens)
        return text[:kept] + note


def result_path(text: str) -> str:
    """Return the path of a result in the workspace. Equal texts have equal paths."""
    return f"results/{sha256(text.encode(errors='replace')).hexdigest()[:16]}.txt"
