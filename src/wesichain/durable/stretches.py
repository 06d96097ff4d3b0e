"""Stretches: what a run is given at its beginning and after each interruption, and what each stretch came to.

The ending of a stretch is kept as what it adds to the one before, so that a run with many approvals is not
kept many times.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, ClassVar

from wesichain.agent import Completed, Decision, Failed, Interrupted
from wesichain.core import (
    OMIT,
    Event,
    Message,
    dataclass,
    from_json,
    is_array,
    is_object,
    to_json,
)
from wesichain.errors import DurableError

from .states import checked_id

_FIRST_TAG = '{"kind":"go_on"'
_SHORT = "~"  # begins the text of an ending that is kept as an addition


@dataclass(frozen=True, slots=True)
class Begin:
    """The order to begin a run."""

    kind: ClassVar[str] = "begin"
    task: str
    history: tuple[Message, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class GoOn:
    """The order to go on with an interrupted run, with what people decided until then."""

    kind: ClassVar[str] = "resume_run"
    decisions: Mapping[str, Decision]
    at: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stretch of a run ended, and what it told since its last step."""

    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    events: tuple[Event, ...] = ()


def new_order(task: str, run_id: str | None, history: Sequence[Message]) -> tuple[str, str]:
    """The id and the order of a new run."""
    run_id = secrets.token_hex(16) if run_id is None else checked_id(run_id)
    return run_id, to_json(Begin(task, tuple(history)))


def read_order(text: str) -> Begin | GoOn:
    """The order of a workflow. The first databases of 0.2.0 call `GoOn` by another tag."""
    if text.startswith(_FIRST_TAG):
        text = '{"kind":"resume_run"' + text.removeprefix(_FIRST_TAG)
    order: Begin | GoOn = from_json(Begin | GoOn, text)
    return order


def asked_of(order: str) -> str:
    """By which two orders are known to be the same."""
    return sha256(order.encode()).hexdigest()


def run_of(workflow_id: str) -> str:
    return workflow_id.partition("/")[0]


def stretches_of(run_id: str, stretch: int) -> list[str]:
    """The ids of a run's workflows, up to one of them."""
    return [run_id, *(f"{run_id}/{number}" for number in range(1, stretch + 1))]


def write_ending(ending: Ending, earlier: Sequence[str]) -> str:
    """The text of an ending: what it adds to that of the stretch before."""
    text = to_json(ending)
    if not earlier:
        return text
    return _SHORT + json.dumps(shorten(json.loads(text), _whole(earlier)), separators=(",", ":"))


def read_ending(texts: Sequence[str]) -> Ending:
    """The last of the endings of a run's stretches, of which all are given."""
    if not texts:
        raise DurableError("the run has no ending yet")
    if not texts[-1].startswith(_SHORT):
        return from_json(Ending, texts[-1])
    return from_json(Ending, json.dumps(_whole(texts)))


def _whole(texts: Sequence[str]) -> Any:
    whole: Any = None
    for text in texts:
        is_short = text.startswith(_SHORT)
        whole = restore(json.loads(text[1:]), whole) if is_short else json.loads(text)
    return whole


def shorten(now: Any, before: Any) -> dict[str, Any]:
    """A JSON value as what it adds to an earlier one."""
    if is_same(now, before):
        return {"same": True}
    if is_object(now) and is_object(before):
        parts = {
            key: shorten(value, before[key]) if key in before else {"new": value}
            for key, value in now.items()
        }
        return {"of": parts}
    if is_array(now) and is_array(before):
        shared = 0
        while shared < min(len(now), len(before)) and is_same(now[shared], before[shared]):
            shared += 1
        if shared:
            return {"first": shared, "then": now[shared:]}
    return {"new": now}


def restore(short: Mapping[str, Any], before: Any) -> Any:
    """The value that was shortened, with the earlier one at hand."""
    if "same" in short:
        return before
    if "of" in short:
        return {key: restore(part, before.get(key)) for key, part in short["of"].items()}
    if "first" in short:
        return [*before[: short["first"]], *short["then"]]
    return short["new"]


def is_same(one: Any, two: Any) -> bool:
    """Whether two JSON values are the same, 1, 1.0 and true being three."""
    if type(one) is not type(two):
        return False
    if is_object(one):
        return one.keys() == two.keys() and all(is_same(value, two[key]) for key, value in one.items())
    if is_array(one):
        return len(one) == len(two) and all(map(is_same, one, two))
    return bool(one == two)
