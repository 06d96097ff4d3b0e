"""Records: the stored text of a finished step, and the fingerprint of its input."""

from __future__ import annotations

from hashlib import sha256

from wesichain.agent.internal import RaisedError
from wesichain.core import Event, JsonValue, LlmRequest, LlmResponse, Part, Role, to_json
from wesichain.core.internal import Value, from_plain, is_object, parse_json
from wesichain.errors import BudgetExceededError, CodecError
from wesichain.tools import ToolContext
from wesichain.tools.internal import PreparedCall


class MetLimit(Value):
    """A limit of an outer run that a run inside a call has exceeded.

    `level` 1 is the run that made the call, 2 the run above it.
    """

    level: int
    step_id: int
    resource: str
    limit: float
    used: float
    message: str

    @classmethod
    def in_call(cls, ctx: ToolContext) -> MetLimit | None:
        """The limit that a run inside this call has exceeded, or None."""
        link = ctx.link
        if link is None or link.limit is None:
            return None
        met = link.limit
        level = link.account.level_of(met.owner)
        return cls(level, met.step_id, met.resource, met.limit, met.used, str(met))

    def restore(self, ctx: ToolContext) -> None:
        """Set it as the limit that the call has exceeded, of the run that is now at its level."""
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
    """The result of a step: a reply, a value, or an error. `events` are those of inner runs."""

    reply: LlmResponse | None = None
    value: JsonValue = None
    raised: RaisedError | None = None
    is_refusal: bool = False  # nothing was done: a resumed run performs the step again
    is_unknown: bool = False  # it may have been done: it must not be done twice
    is_finish: bool = False  # the tool ended the run with its value
    duration_ms: float = 0.0
    parts: tuple[Part, ...] = ()  # of a result that is more than text
    limit: MetLimit | None = None  # that ended the call
    events: tuple[Event, ...] = ()


class JournalRecord(Value, omit_defaults=True):
    """A step as it is stored, with the fingerprint of its input (`asked`).

    `at` is the wall time at its end, `elapsed` the seconds of the run's own time. `by` is the version of the
    program that performed it; `told` are the run's events since the record before.
    """

    asked: str
    at: float
    elapsed: float
    entry: StepRecord
    by: str = ""
    told: tuple[Event, ...] = ()


def read_record(text: str) -> JournalRecord:
    """The record of a step from its text. The first databases of 0.2.0 call its `entry` "deed"."""
    plain = parse_json(text)
    if is_object(plain) and "deed" in plain:
        plain = {**plain, "entry": plain["deed"]}
        del plain["deed"]
    record: JournalRecord = from_plain(JournalRecord, plain)
    return record


def written(record: JournalRecord, *, limit: int) -> tuple[JournalRecord, str]:
    """The record as it is stored, and its text. A result that is not JSON, or too long, becomes an error."""
    try:
        text = to_json(record)
        size = len(text) if text.isascii() else len(text.encode())
        if size <= limit:
            return record, text
        why = (
            f"the output of this step has {size} bytes, the limit is {limit}: return less, or raise max_step"
        )
    except CodecError as error:
        why = f"the output of this step cannot be stored: {error}"
    done = record.entry
    entry = StepRecord(raised=RaisedError("CodecError", why), duration_ms=done.duration_ms, limit=done.limit)
    kept = JournalRecord(record.asked, record.at, record.elapsed, entry, record.by)
    return kept, to_json(kept)


def fingerprint(value: object) -> str:
    return sha256(to_json(value).encode()).hexdigest()


def fingerprint_of_call(prepared: PreparedCall) -> str:
    call = prepared.call
    return fingerprint([call.id, call.name, call.args])


class RequestHasher:
    """Makes fingerprints of a run's requests: each covers all messages so far and hashes the new ones only.

    Tools are left out because they are part of the program's version, and the model because it may change.
    The system messages of an inner agent are left out because a resume computes its instructions again.
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
