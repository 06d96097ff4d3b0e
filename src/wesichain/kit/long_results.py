"""Long results: which results are stored in files, under which paths, and how they are shortened."""

from __future__ import annotations

from hashlib import sha256

from wesichain.context import CountTokens, estimate_tokens
from wesichain.core import Message, Role
from wesichain.core.internal import dataclass
from wesichain.errors import ConfigError

_LEAST = 100  # tokens: less would be the words on the file alone
# What a tool reads from files is in files already.
READING = frozenset({"list_files", "read_file", "search_files", "read_skill"})


@dataclass(frozen=True, slots=True)
class LongResults:
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
