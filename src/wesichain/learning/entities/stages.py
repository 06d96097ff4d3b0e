"""Stages: how far a bullet is trusted, by what happened when its tool sequence was followed."""

from __future__ import annotations

from typing import Literal, TypeAlias

Section: TypeAlias = Literal["Strategies", "Pitfalls", "Observations"]
Stage: TypeAlias = Literal["shadow", "staging", "prod", "quarantined"]
Ruling: TypeAlias = Literal["none", "passed", "forced", "quarantined"]

SECTIONS: tuple[Section, ...] = ("Strategies", "Pitfalls", "Observations")
STAGES: tuple[Stage, ...] = ("quarantined", "shadow", "staging", "prod")  # least trusted first
VISIBLE: tuple[Stage, ...] = ("staging", "prod")
RULINGS: tuple[Ruling, ...] = ("none", "passed", "forced", "quarantined")


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


def settle(helpful: int, harmful: int, *, section: Section, ruling: Ruling) -> tuple[Stage, Ruling]:
    """The stage after a change, and the ruling that still stands.

    A pass of the gate lasts while the evidence is good enough for prod; an operator's `forced` lasts
    until the evidence speaks for quarantine; an operator's `quarantined` lasts until it is promoted.
    """
    earned = stage_of(helpful, harmful, section=section)
    if ruling == "quarantined":
        return "quarantined", ruling
    if ruling == "forced" and earned != "quarantined":
        return "prod", ruling
    if earned == "prod":
        return ("prod", "passed") if ruling == "passed" else ("staging", "none")
    return earned, "none"
