"""Stages: how far a bullet is trusted, by its evidence or by a ruling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from .evidence import EvidenceTally

Section: TypeAlias = Literal["Strategies", "Pitfalls", "Observations"]
Stage: TypeAlias = Literal["shadow", "staging", "prod", "quarantined"]
Ruling: TypeAlias = Literal["none", "owner", "forced", "quarantined"]

SECTIONS: tuple[Section, ...] = ("Strategies", "Pitfalls", "Observations")
STAGES: tuple[Stage, ...] = ("quarantined", "shadow", "staging", "prod")  # least trusted first
VISIBLE: tuple[Stage, ...] = ("staging", "prod")
RULINGS: tuple[Ruling, ...] = ("none", "owner", "forced", "quarantined")
OLD_RULINGS: Mapping[str, Ruling] = {"passed": "none", "refused": "quarantined"}  # of the gate before 1.3

TAUGHT = 2  # runs that have to teach a model's lesson before it is shown


def stage_of(helpful: int, harmful: int, *, section: Section = "Strategies") -> Stage:
    """Return the stage that counts allow.

    A pitfall warns against a sequence, so failures confirm it: it becomes visible at the second failure and
    is retired once the sequence succeeds more often than it fails.
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


def lesson_stage(tally: EvidenceTally, *, taught: int, helpful: int, harmful: int) -> Stage:
    """Return the stage of a model's lesson that `taught` different runs have taught.

    After each withdrawal twice as many runs have to teach it before it is shown again.
    """
    if taught < TAUGHT * 2**tally.withdrawn:
        return "quarantined" if tally.withdrawn else "shadow"
    return "prod" if stage_of(helpful, harmful) == "prod" else "staging"


def settle(earned: Stage, ruling: Ruling) -> tuple[Stage, Ruling]:
    """Return the stage after a change, and the ruling that remains in force.

    An owner's bullet is always in prod. The ruling `forced` lasts until the evidence gives quarantine, and
    `quarantined` until the bullet is promoted.
    """
    if ruling == "owner":
        return "prod", ruling
    if ruling == "quarantined":
        return "quarantined", ruling
    if ruling == "forced" and earned != "quarantined":
        return "prod", ruling
    return earned, "none"
