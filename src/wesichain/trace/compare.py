"""The differences between two runs: their events compared in order, without times and run ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from hashlib import sha256
from os import PathLike
from typing import Any, TypeAlias, cast

from typing_extensions import override

from wesichain.core import Event, JsonValue, TextDelta, to_json
from wesichain.core.internal import OutputDelta, Value, json_changes

from .recordings.recording import Recording, load
from .redaction.masks import equal_redacted
from .redaction.redactor import Redactor
from .terminal import neutralise

_IGNORED = frozenset({"run_id", "at", "seq", "duration_ms", "seconds", "token", "expires_at"})
_CALL_IDS = frozenset({"id", "call_id", "tool_call_id"})
_ALIGNED = 2_000  # events a side; more are compared in order
_MAX_VALUE = 120


class Change(Value):
    """A value of an event that differs; None on a side that does not have it."""

    path: str
    left: JsonValue
    right: JsonValue

    @override
    def __str__(self) -> str:
        return f"{self.path}: {_shortened(self.left)} -> {_shortened(self.right)}"


class Difference(Value):
    """An event that differs between two runs; None on the side that does not have it."""

    left: Event | None
    right: Event | None
    changes: tuple[Change, ...] = ()

    @property
    def step_id(self) -> int:
        return cast("Event", self.left or self.right).step_id

    @override
    def __str__(self) -> str:
        """The step, the kind of the event, and its changes, a line each."""
        event = cast("Event", self.left or self.right)
        where = f"step {event.step_id}" + (f" of {event.scope}" if event.scope else "")
        if self.left is None or self.right is None:
            side = "second" if self.left is None else "first"
            return neutralise(f"{where}: {event.kind} only in the {side} run")
        lines = [f"{where}: {event.kind}", *(f"  {change}" for change in self.changes)]
        return neutralise("\n".join(lines))


Run: TypeAlias = Recording | Sequence[Event] | str | PathLike[str]


def diff(left: Run, right: Run) -> list[Difference]:
    """Return the differences between two runs in order; an empty list if there are none.

    A run is a recording, its events, or the path of a recording.

    Run ids, times, durations, sequence numbers, approval tokens and the deltas of streamed replies are not
    compared. Call ids are compared by their order. Both sides are redacted first, so that a recording equals
    the run that it was made from, and a difference contains no secret; a mask equals what it masks.
    """
    ours, theirs = _events(left), _events(right)
    ours_plain, theirs_plain = _comparable(ours), _comparable(theirs)
    found: list[Difference] = []
    for i, j in _aligned(ours_plain, theirs_plain):
        if i is None or j is None:
            found.append(Difference(None if i is None else ours[i], None if j is None else theirs[j]))
        elif not equal_redacted(ours_plain[i], theirs_plain[j]):
            changes = tuple(
                Change(path, old, new)
                for path, old, new in json_changes(ours_plain[i], theirs_plain[j])
                if not equal_redacted(old, new)
            )
            found.append(Difference(ours[i], theirs[j], changes))
    return found


def _events(run: Run) -> list[Event]:
    if isinstance(run, str | PathLike):
        run = load(run)
    events = run.events if isinstance(run, Recording) else run
    redactor = Redactor()
    return [redactor.event(event) for event in events if not isinstance(event, TextDelta | OutputDelta)]


def _comparable(events: Sequence[Event]) -> list[dict[str, Any]]:
    ids: dict[str, str] = {}
    return [{"kind": event.kind, **_normal(event, ids)} for event in events]


def _normal(value: Any, ids: dict[str, str]) -> Any:
    """The compared fields of a value, with call ids numbered as they appear. JSON is left unchanged."""
    if isinstance(value, tuple):
        return [_normal(item, ids) for item in cast("Sequence[Any]", value)]
    if isinstance(value, bytes):
        return sha256(value).hexdigest()
    if not is_dataclass(value) or isinstance(value, type):
        return value
    plain: dict[str, Any] = {}
    for name in (field.name for field in fields(value) if field.compare and field.name not in _IGNORED):
        item = getattr(value, name)
        if name in _CALL_IDS and item is not None:
            plain[name] = ids.setdefault(item, f"call {len(ids) + 1}")
        else:
            plain[name] = _normal(item, ids)
    return plain


# --- side by side ---------------------------------------------------------------------------------

_Pair: TypeAlias = tuple[int | None, int | None]


def _aligned(left: Sequence[Any], right: Sequence[Any]) -> Iterator[_Pair]:
    """Positions on both sides, paired where the events are equal or of the same kind."""
    keys = [to_json(each) for each in left], [to_json(each) for each in right]
    kinds = [each["kind"] for each in left], [each["kind"] for each in right]
    for is_equal, ours, theirs in _blocks(*keys):
        if is_equal:
            yield from zip(ours, theirs, strict=True)
            continue
        for is_same_kind, some, others in _blocks(
            kinds[0][ours.start : ours.stop], kinds[1][theirs.start : theirs.stop]
        ):
            mine = [ours[i] for i in some]
            yours = [theirs[j] for j in others]
            if is_same_kind:
                yield from zip(mine, yours, strict=True)
            else:
                yield from ((i, None) for i in mine)
                yield from ((None, j) for j in yours)


def _blocks(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[bool, range, range]]:
    """Ranges of both sides that are equal, and the ranges between them."""
    from difflib import SequenceMatcher  # not needed to run an agent

    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    if start:
        yield True, range(start), range(start)
    ours, theirs = left[start:], right[start:]
    if max(len(ours), len(theirs)) > _ALIGNED:  # alignment is quadratic: compare in order instead
        both = min(len(ours), len(theirs))
        yield True, range(start, start + both), range(start, start + both)
        yield False, range(start + both, len(left)), range(start + both, len(right))
        return
    for name, i, i_end, j, j_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield name == "equal", range(start + i, start + i_end), range(start + j, start + j_end)


def _shortened(value: JsonValue) -> str:
    text = to_json(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"
