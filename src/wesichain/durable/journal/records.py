"""Records: what a finished step leaves behind, as text, and the fingerprint of what it was asked."""

from __future__ import annotations

from hashlib import sha256

from wesichain.agent import RaisedError
from wesichain.core import Event, JsonValue, LlmRequest, LlmResponse, Part, Role, to_json
from wesichain.core.internal import Value, from_plain, is_object, parse_json
from wesichain.errors import BudgetExceededError, CodecError
from wesichain.tools import PreparedCall, ToolContext


class MetLimit(Value):
    """A limit of a run above, met by a run inside a call: `level` 1 is the run that made the call, 2 the one
    above that."""

    level: int
    step_id: int
    resource: str
    limit: float
    used: float
    message: str

    @classmethod
    def in_call(cls, ctx: ToolContext) -> MetLimit | None:
        """The limit that a run inside this call has met; None where there is none."""
        link = ctx.link
        if link is None or link.limit is None:
            return None
        met = link.limit
        level = link.account.level_of(met.owner)
        return cls(level, met.step_id, met.resource, met.limit, met.used, str(met))

    def restore(self, ctx: ToolContext) -> None:
        """Make it the limit of the run that stands at its level now."""
        owner = ctx.link.account.at_level(self.level)
        ctx.link.limit = BudgetExceededError(
            self.message,
            step_id=self.step_id,
            resource=self.resource,
            limit=self.limit,
            used=self.used,
            owner=owner,
        )


class StepRecord(Value, omit_defaults=True):
    """The record of a step: a reply, a value, or an error. `events`: those of runs inside it."""

    reply: LlmResponse | None = None
    value: JsonValue = None
    raised: RaisedError | None = None
    is_refusal: bool = False  # nothing was done: resuming the run asks again
    is_unknown: bool = False  # it may have been done: never do it twice
    is_finish: bool = False  # the tool said that its value is the run's
    duration_ms: float = 0.0
    parts: tuple[Part, ...] = ()  # of a result that is more than text
    limit: MetLimit | None = None  # that ended the call
    events: tuple[Event, ...] = ()


class JournalRecord(Value, omit_defaults=True):
    """A deed, what it answers to, and when: wall time, and seconds of the run's own time, at its end.

    `by` is the version of the program that did it; `told` are the run's events since the record before.
    """

    asked: str
    at: float
    elapsed: float
    entry: StepRecord
    by: str = ""
    told: tuple[Event, ...] = ()


def read_record(text: str) -> JournalRecord:
    """The record of a step from its text. The first databases of 0.2.0 call the entry by another name."""
    plain = parse_json(text)
    if is_object(plain) and "deed" in plain:
        plain = {**plain, "entry": plain["deed"]}
        del plain["deed"]
    record: JournalRecord = from_plain(JournalRecord, plain)
    return record


def written(record: JournalRecord, *, limit: int) -> tuple[JournalRecord, str]:
    """The record as it can be kept, and its text. What has no JSON, or is too long, is an error."""
    try:
        text = to_json(record)
        size = len(text) if text.isascii() else len(text.encode())
        if size <= limit:
            return record, text
        why = (
            f"the output of this step has {size} bytes, and {limit} are kept: return less, or raise max_step"
        )
    except CodecError as error:
        why = f"the output of this step cannot be kept: {error}"
    done = record.entry
    entry = StepRecord(raised=RaisedError("CodecError", why), duration_ms=done.duration_ms, limit=done.limit)
    kept = JournalRecord(record.asked, record.at, record.elapsed, entry, record.by)
    return kept, to_json(kept)


def fingerprint(value: object) -> str:
    return sha256(to_json(value).encode()).hexdigest()


def fingerprint_of_call(prepared: PreparedCall) -> str:
    call = prepared.call
    return fingerprint([call.id, call.name, call.args])


class Conversed:
    """The fingerprints of a run's requests: of all messages so far, at the cost of the new ones.

    The tools are a part of the program's version, and the model may change without it. The instructions of
    an agent inside are asked for anew when the run goes on, and may be others by then.
    """

    __slots__ = ("_hash", "_is_inside", "_seen")

    def __init__(self, *, is_inside: bool = False) -> None:
        self._hash = sha256()
        self._is_inside = is_inside
        self._seen = 0

    def fingerprint(self, request: LlmRequest) -> str:
        new = request.messages[self._seen :]
        self._seen = len(request.messages)
        if self._is_inside:
            new = tuple(message for message in new if message.role is not Role.SYSTEM)
        self._hash.update(to_json([request.output_schema, new]).encode())
        return self._hash.hexdigest()
