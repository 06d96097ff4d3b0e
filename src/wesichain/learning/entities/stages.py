"""Stages: how far a bullet is trusted, by a comparison of runs with it and without.

Until there is one, what happened when its sequence of tools was followed has to do.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from .evidence import ENOUGH, EvidenceTally

Section: TypeAlias = Literal["Strategies", "Pitfalls", "Observations"]
Stage: TypeAlias = Literal["shadow", "staging", "prod", "quarantined"]
Ruling: TypeAlias = Literal["none", "passed", "forced", "refused", "quarantined"]

SECTIONS: tuple[Section, ...] = ("Strategies", "Pitfalls", "Observations")
STAGES: tuple[Stage, ...] = ("quarantined", "shadow", "staging", "prod")  # least trusted first
VISIBLE: tuple[Stage, ...] = ("staging", "prod")
RULINGS: tuple[Ruling, ...] = ("none", "passed", "forced", "refused", "quarantined")

# Chances that a bullet helps. While a trial is young less will do to go on with it.
PROD = 0.95
HARM = 0.90
_PROMISE = 0.80
_YOUNG = 0.30  # at 8 runs on each side
_GROWN = 0.85  # from 16 runs on each side on
_LITTLE_TO_WIN = 2.0  # how much more for each point of success above a half that there is without it


def stage_of(helpful: int, harmful: int, *, section: Section = "Strategies") -> Stage:
    """The stage that the evidence allows; whether "prod" is reached is for the gate to say.

    A pitfall warns of a sequence, so failures confirm it: it is shown from the second failure on and
    retired once the sequence succeeds more often than it fails.
    """
    if section == "Pitfalls":
        if helpful > harmful:
            return "quarantined"
        if harmful >= 5 and harmful >= 5 * helpful:
            return "prod"
        return "staging" if harmful >= 2 else "shadow"
    if helpful >= 5 and helpful >= 5 * harmful:
        return "prod"
    if helpful >= 3 and helpful >= 3 * harmful:
        return "staging"
    if harmful > 0 and harmful >= helpful:
        return "quarantined"
    return "shadow"


def earned_by(tally: EvidenceTally, helpful: int, harmful: int, *, section: Section = "Strategies") -> Stage:
    """The stage that a bullet's evidence gives it.

    Where runs with it and without can be compared, the chance that it helps decides. Until then `stage_of`
    does, on counts that fade; and what looks better than the runs that go another way is tried as well,
    however seldom those succeed.
    """
    if tally.compared:
        chance = tally.chance_of_lift()
        if 1 - chance >= HARM:
            return "quarantined"
        if chance >= PROD:
            return "prod"
        return "staging" if chance >= _needed(tally) else "shadow"
    left, lost = helpful - tally.lost_helpful, harmful - tally.lost_harmful
    stage = stage_of(round(left), round(lost), section=section)
    if section != "Strategies" or stage in VISIBLE:
        return stage
    is_promising = left >= 2 and tally.held_runs >= ENOUGH and tally.chance_of_promise(left, lost) >= _PROMISE
    return "staging" if is_promising else stage


def settle(earned: Stage, ruling: Ruling, *, compared: bool) -> tuple[Stage, Ruling]:
    """The stage after a change, and the ruling that still stands.

    Prod is reached by the gate's pass or by a comparison. A pass lasts while the evidence is good enough
    for prod; what the gate or the watch `refused` is not shown; an operator's `forced` lasts until the
    evidence speaks for quarantine, an operator's `quarantined` until it is promoted.
    """
    if ruling == "quarantined":
        return "quarantined", ruling
    if ruling == "refused":
        return ("quarantined" if earned == "quarantined" else "shadow"), ruling
    if ruling == "forced" and earned != "quarantined":
        return "prod", ruling
    if earned == "prod":
        return ("prod", "passed") if compared or ruling == "passed" else ("staging", "none")
    return earned, "none"


def _needed(tally: EvidenceTally) -> float:
    """How likely it must be that a bullet helps, for it to be shown on.

    More, the longer it was tried; and from the start where most runs succeed without it: less is to win.
    """
    age = (min(tally.shown_runs, tally.held_runs) - ENOUGH) / ENOUGH
    without = (1 + tally.held_successes) / (2 + tally.held_runs)
    young = min(_GROWN, _YOUNG + _LITTLE_TO_WIN * max(0.0, without - 0.5))
    return young + (_GROWN - young) * min(1.0, max(0.0, age))
