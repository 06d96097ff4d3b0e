"""Stages: how far a bullet is trusted, from counts, from a comparison, or by an owner's word."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .evidence import EvidenceTally

Section: TypeAlias = Literal["Strategies", "Pitfalls", "Observations"]
Stage: TypeAlias = Literal["shadow", "staging", "prod", "quarantined"]
Ruling: TypeAlias = Literal["none", "owner", "passed", "forced", "refused", "quarantined"]

SECTIONS: tuple[Section, ...] = ("Strategies", "Pitfalls", "Observations")
STAGES: tuple[Stage, ...] = ("quarantined", "shadow", "staging", "prod")  # least trusted first
VISIBLE: tuple[Stage, ...] = ("staging", "prod")
RULINGS: tuple[Ruling, ...] = ("none", "owner", "passed", "forced", "refused", "quarantined")

TRIAL = 0.90  # chance of a lift from which a compared bullet stays on trial
PROD = 0.95
HARM = 0.90
TAUGHT = 2  # runs that have to give a model's lesson before it is shown


def stage_of(helpful: int, harmful: int, *, section: Section = "Strategies") -> Stage:
    """Return the stage that counts allow; whether "prod" is entered is for the gate to decide.

    A pitfall warns of a sequence, so failures confirm it: it is visible from the second failure on and
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
    """Return the stage that a strategy's evidence gives it.

    Where runs with it and without it can be compared, the chance that it helps decides. Until then
    `stage_of` does, on counts that fade.
    """
    if tally.compared:
        return _compared(tally)
    left, lost = helpful - tally.lost_helpful, harmful - tally.lost_harmful
    return stage_of(round(left), round(lost), section=section)


def lesson_stage(tally: EvidenceTally, *, taught: int, helpful: int, harmful: int) -> Stage:
    """Return the stage of a model's lesson, which `taught` different runs have given.

    Each time that it was withdrawn, twice as many runs have to give it before it is shown again.
    """
    if taught < TAUGHT * 2**tally.withdrawn:
        return "quarantined" if tally.withdrawn else "shadow"
    return "prod" if stage_of(helpful, harmful) == "prod" else "staging"


def settle(earned: Stage, ruling: Ruling, *, compared: bool) -> tuple[Stage, Ruling]:
    """Return the stage after a change, and the ruling that still holds.

    An owner's bullet is in prod whatever its counts. Otherwise prod is entered by the gate's pass or by a
    comparison. A pass lasts while the evidence is good enough for prod; what the gate or the watch `refused`
    is not shown; an operator's `forced` lasts until the evidence speaks for quarantine, an operator's
    `quarantined` until it is promoted.
    """
    if ruling == "owner":
        return "prod", ruling
    if ruling == "quarantined":
        return "quarantined", ruling
    if ruling == "refused":
        return ("quarantined" if earned == "quarantined" else "shadow"), ruling
    if ruling == "forced" and earned != "quarantined":
        return "prod", ruling
    if earned == "prod":
        return ("prod", "passed") if compared or ruling == "passed" else ("staging", "none")
    return earned, "none"


def _compared(tally: EvidenceTally) -> Stage:
    chance = tally.chance_of_lift()
    if 1 - chance >= HARM:
        return "quarantined"
    if chance >= PROD:
        return "prod"
    return "staging" if chance >= TRIAL else "shadow"
