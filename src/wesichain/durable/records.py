"""Records: what a finished step leaves behind, as text, and the fingerprint of what it was asked."""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256

from wesichain.core import (
    OMIT,
    Event,
    JsonValue,
    LlmRequest,
    LlmResponse,
    ToolSpec,
    dataclass,
    to_json,
)
from wesichain.errors import CodecError
from wesichain.tools import PreparedCall


@dataclass(frozen=True, slots=True)
class Raised:
    """An error, as far as it is kept: the name of its class is compared with known ones, never loaded."""

    error: str
    message: str
    retryable: bool = field(default=False, metadata=OMIT)
    retry_after: float | None = field(default=None, metadata=OMIT)

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        after = getattr(error, "retry_after", None)
        return cls(
            type(error).__name__,
            str(error),
            bool(getattr(error, "retryable", False)),
            float(after) if isinstance(after, int | float) else None,
        )


@dataclass(frozen=True, slots=True)
class Deed:
    """What a step came to: a reply, a value, or an error. `events`: what runs inside it told."""

    reply: LlmResponse | None = field(default=None, metadata=OMIT)
    value: JsonValue = field(default=None, metadata=OMIT)
    raised: Raised | None = field(default=None, metadata=OMIT)
    is_refusal: bool = field(default=False, metadata=OMIT)  # nothing was done: resuming the run asks again
    is_unknown: bool = field(default=False, metadata=OMIT)  # it may have been done: never do it twice
    duration_ms: float = field(default=0.0, metadata=OMIT)
    events: tuple[Event, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Record:
    """A deed, what it answers to, and when: wall time, and seconds of the run's own time, at its end."""

    asked: str
    at: float
    elapsed: float
    deed: Deed


def written(record: Record, *, limit: int) -> str:
    """The text of a record. What has no JSON, or too many bytes, becomes an error of the step."""
    try:
        text = to_json(record)
        size = len(text.encode())
        if size <= limit:
            return text
        why = (
            f"the output of this step has {size} bytes, and {limit} are kept: return less, or raise max_step"
        )
    except CodecError as error:
        why = f"the output of this step cannot be kept: {error}"
    deed = Deed(raised=Raised("CodecError", why), duration_ms=record.deed.duration_ms)
    return to_json(Record(record.asked, record.at, record.elapsed, deed))


def fingerprint(value: object) -> str:
    return sha256(to_json(value).encode()).hexdigest()


def fingerprint_of_call(prepared: PreparedCall) -> str:
    call = prepared.call
    return fingerprint([call.id, call.name, call.args])


class Conversed:
    """The fingerprints of a run's requests: of all messages so far, at the cost of the new ones."""

    __slots__ = ("_hash", "_seen", "_specs", "_tools")

    def __init__(self) -> None:
        self._hash = sha256()
        self._seen = 0
        self._specs: tuple[ToolSpec, ...] | None = None
        self._tools = ""

    def fingerprint(self, request: LlmRequest) -> str:
        specs = tuple(request.tools)
        if specs != self._specs:
            self._specs, self._tools = specs, fingerprint(specs)
        new = request.messages[self._seen :]
        self._seen = len(request.messages)
        self._hash.update(to_json([request.model, self._tools, request.output_schema, new]).encode())
        return self._hash.hexdigest()
