"""People: whether, when and how often they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wesichain.core.internal import Value

from .faults import FaultPlan
from .loop import EPOCH, VirtualLoop
from .scenario import Person

_FAULTS = ("person_never", "person_late", "person_twice")
_WEEK = 7 * 86_400.0


class SimulatedQuestion(NamedTuple):
    """An open question: its key, the name of its boundary, and the argument for the scenario's people."""

    key: str
    place: str
    asked: Any
    expires_at: float | None


class Answers(Value):
    """The answers by the keys of the questions. `is_repeated`: they are given a second time."""

    given: Mapping[str, Any]
    is_repeated: bool


async def answers_to(
    questions: Sequence[SimulatedQuestion], people: Person | None, plan: FaultPlan, loop: VirtualLoop
) -> Answers | None:
    """Wait for an answer to each question; None if one never arrives."""
    arriving: list[tuple[float, SimulatedQuestion]] = []
    is_repeated = False
    for question in questions:
        place = plan.visit(question.place)
        kind = plan.at(place, _FAULTS)
        if people is None or kind == "person_never":
            return None
        at = loop.time() + plan.number(place, low=1.0, high=600.0)
        if kind == "person_late":
            expires = _WEEK + at if question.expires_at is None else question.expires_at - EPOCH
            at = max(at, expires + 1.0)
        arriving.append((at, question))
        is_repeated = is_repeated or kind == "person_twice"
    given: dict[str, Any] = {}
    for at, question in sorted(arriving, key=lambda one: one[0]):
        await asyncio.sleep(max(0.0, at - loop.time()))
        assert people is not None
        answer = people(question.asked)
        if answer is None:
            return None
        given[question.key] = answer
    return Answers(given, is_repeated)
