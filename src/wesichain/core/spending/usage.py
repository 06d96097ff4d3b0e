"""Usage: tokens read and written."""

from __future__ import annotations

from dataclasses import field

from wesichain.core.dataclass import constructor_of, dataclass
from wesichain.errors import CodecError

_OMIT = {"omit_empty": True}  # as `messages.OMIT`


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written.

    `input_tokens` are all that the provider read, `cache_read_tokens` and `cache_write_tokens` those of them
    that it found in its cache or put there. `reasoning_tokens` are those of the output that nobody sees.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = field(default=0, metadata=_OMIT)
    cache_write_tokens: int = field(default=0, metadata=_OMIT)
    reasoning_tokens: int = field(default=0, metadata=_OMIT)

    def __post_init__(self) -> None:
        read, written = self.input_tokens, self.output_tokens
        is_right = read.__class__ is int and written.__class__ is int and read >= 0 and written >= 0
        for rare in (self.cache_read_tokens, self.cache_write_tokens, self.reasoning_tokens):
            if rare != 0 or rare.__class__ is not int:
                is_right = is_right and rare.__class__ is int and rare > 0
        if not is_right:
            raise CodecError(f"{self!r}: counts of tokens are whole numbers from 0 up")

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return _usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


_usage = constructor_of(Usage)
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Spent:
    """The spending of a run up to one moment: counted as it happened, never recomputed."""

    steps: int = 0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    free_retries: int = 0
    cost: float = field(default=0.0, metadata=_OMIT)
    seconds: float = field(default=0.0, metadata=_OMIT)  # at work: waiting for a person does not count
