"""Comparison of events with recorded ones, and the error for the first difference."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from wesichain.core import Event, Role, RunStarted, StepStarted, ToolDispatched
from wesichain.core.internal import to_plain
from wesichain.errors import ReplayMismatchError

if TYPE_CHECKING:
    from wesichain.trace import Redactor

_VOLATILE = (
    *("run_id", "seq", "at", "duration_ms", "seconds", "pending", "decisions", "model", "cause"),
    *("node", "task_id"),  # the place of a run in a graph, which a replay of the run alone does not have
)

_UNTOLD_BEFORE: dict[type[Event], tuple[str, ...]] = {
    RunStarted: ("agent", "own_id"),
    ToolDispatched: ("resumed",),
}
_MORE_STEPS = "the recording ends before this step; the program now takes more steps"


class EventComparison:
    """Compares events, redacted as a recording has them."""

    def __init__(self, *, is_resumed: bool) -> None:
        from wesichain.trace import Redactor  # loaded with the first replay

        self.redactor: Redactor = Redactor()
        self._is_resumed = is_resumed

    def plain(self, value: object) -> Any:
        """A value as it stands in a recording: plain and redacted."""
        return self.redactor.value(to_plain(value))

    def difference(self, expected: Event | None, event: Event) -> ReplayMismatchError | None:
        """How an event differs from the one that was recorded, if it does; None is recorded of a surplus."""
        step = event.step_id
        if expected is None:
            if isinstance(event, ToolDispatched):
                what = f"the call {event.call.name!r} ({event.call_id}) is not in the recording"
                return mismatch(f"step {step}: {what}", step)
            return mismatch(f"step {step}: {_MORE_STEPS}", step)
        if type(event) is type(expected) and _is_same(expected, event):
            return None
        old, new = self._comparable(expected), self._comparable(event)
        for name in _UNTOLD_BEFORE.get(type(event), ()):
            if name not in old:  # version 0.1 did not record it
                new.pop(name, None)
        if old == new:
            return None
        if isinstance(expected, StepStarted) and isinstance(event, StepStarted):
            return self._different_messages(expected, event)
        if isinstance(event, ToolDispatched):
            then, now = old.get("call", old), new["call"]
            what = f"differs from the recording: expected {then}, got {now}"
            return mismatch(f"step {step}: the call {event.call.name!r} {what}", step, then, now)
        if isinstance(event, StepStarted):
            return mismatch(f"step {step}: {_MORE_STEPS}", step, old, new)
        return mismatch(
            f"step {step}: the program now comes to {str(new)[:300]}, where the recording has "
            f"{str(old)[:300]}",
            step,
            old,
            new,
        )

    def _different_messages(self, expected: StepStarted, event: StepStarted) -> ReplayMismatchError | None:
        step = event.step_id
        old, new = (self._comparable(one).get("messages", []) for one in (expected, event))
        if self._is_resumed and new[1:] == old and event.messages[0].role is Role.ASSISTANT:
            return None  # version 0.1 recorded the reply in the first half of the run alone
        for index, (then, now) in enumerate(zip(old, new, strict=False)):
            if then != now:
                return mismatch(
                    f"step {step}: message {index} differs from the recording: "
                    f"expected {str(then)[:300]}, got {str(now)[:300]}",
                    step,
                    then,
                    now,
                )
        message = f"step {step}: {len(new)} new messages where the recording has {len(old)}"
        return mismatch(message, step, old, new)

    def _comparable(self, event: Event) -> dict[str, Any]:
        """The parts of an event that are the same whenever it is emitted."""
        plain: dict[str, Any] = self.plain(event)
        for message in plain.get("messages", ()):
            message.pop("is_error", None)  # version 0.1 did not record it
        if plain.get("decision") == "limit":
            plain["decision"] = "fail"  # as version 0.2 had it
        return {name: value for name, value in plain.items() if name not in _VOLATILE}


def _is_same(expected: Event, event: Event) -> bool:
    """Whether two events are the same as they stand; where they are not, one of them may just be redacted."""
    names = (field.name for field in fields(expected) if field.name not in _VOLATILE)
    return all(getattr(expected, name) == getattr(event, name) for name in names)


def mismatch(message: str, step: int, expected: Any = None, actual: Any = None) -> ReplayMismatchError:
    return ReplayMismatchError(message, step_id=step, expected=expected, actual=actual)
