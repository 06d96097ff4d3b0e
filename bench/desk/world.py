"""Worlds from seeds: three desks of one subject, with rules, records and tasks; and which round has which."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from . import accounts, bookings, jobs, members, registers, spellings
from .rules import Rules, conditional, draw, drifted
from .sampling import Draft, draw_tasks
from .skins import SKINS, Skin
from .values import Desk, World


@dataclass(frozen=True, slots=True)
class Round:
    """The worlds of a round of the experiment. `fresh`: no run in it had been looked at before the round.

    `full`: the arm that its goals are about, where its design names one.
    """

    pilot: str
    worlds: tuple[str, ...]
    fresh: tuple[str, ...]
    full: str = ""


SECOND = Round(
    "library", ("harbour", "clinic", "theatre", "farm"), ("farm",)
)  # the first has its first three
THIRD = Round("college", ("museum", "airfield", "brewery"), ("museum", "airfield", "brewery"))
FOURTH = Round(
    "observatory", ("railway", "circus", "vineyard"), ("railway", "circus", "vineyard"), "full-settled"
)
FIFTH = Round("observatory", ("zoo", "bakery", "printer"), ("zoo", "bakery", "printer"), "full-settled")
ROUNDS = {"second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH}
SEEDS = {"library": 20261, "harbour": 20262, "clinic": 20263, "theatre": 20264, "farm": 20265}
SEEDS |= {"college": 20271, "museum": 20272, "airfield": 20275, "brewery": 20274}
SEEDS |= {"observatory": 20281, "railway": 20285, "circus": 20283, "vineyard": 20284}
SEEDS |= {"zoo": 20291, "bakery": 20292, "printer": 20293}
Variant = Literal["plain", "drifted", "conditional"]
_THINGS = 24  # of each kind; half for training, half for the test
_VARIANTS: dict[Variant, Callable[[Rules, Skin], Rules]] = {
    "plain": lambda rules, _skin: rules,
    "drifted": drifted,
    "conditional": conditional,
}


def build(name: str, *, level: int, train: int = 8, test: int = 4, variant: Variant = "plain") -> World:
    """The world of this name: the same for the same arguments, on every machine."""
    skin, seed, rules = SKINS[name], SEEDS[name], rules_of(name, level=level, variant=variant)
    sizes = {"train": train, "test": test}
    if name in (SECOND.pilot, *SECOND.worlds):
        desks = tuple(make(skin, rules, seed, sizes) for make in (_accounts, _jobs, _registers))
        return World(name, seed, level, desks)
    written = spellings_of(name, level=level, variant=variant)
    desks = tuple(make(skin, written, seed, sizes) for make in (_members, _bookings))
    return World(name, seed, level, (*desks, _registers(skin, rules, seed, sizes)))


def rules_of(name: str, *, level: int, variant: Variant = "plain") -> Rules:
    """What nobody tells an agent in this world."""
    skin = SKINS[name]
    return _VARIANTS[variant](draw(skin, random.Random(f"{SEEDS[name]}/rules"), level=level), skin)


def spellings_of(name: str, *, level: int, variant: Variant = "plain") -> spellings.Spellings:
    """How a world of the third round or a later one writes things."""
    written = spellings.draw(random.Random(f"{SEEDS[name]}/spellings"), level=level)
    return spellings.drifted(written) if variant == "drifted" else written


def _accounts(skin: Skin, rules: Rules, seed: int, sizes: dict[str, int]) -> Desk:
    rng = random.Random(f"{seed}/accounts")
    found = accounts.people(skin, rng, _THINGS)
    draft = partial(accounts.draft, skin=skin, rules=rules, rng=rng)
    train, test = draw_tasks(
        f"{skin.name}/accounts", accounts.FAMILIES, lambda _family: found, draft, rng, **sizes
    )
    return Desk(
        "accounts",
        f"You work at the accounts desk of {skin.house}.",
        accounts.tools(skin, rules),
        accounts.FAMILIES,
        accounts.manual(skin, rules),
        accounts.records(found, rules),
        train,
        test,
    )


def _jobs(skin: Skin, rules: Rules, seed: int, sizes: dict[str, int]) -> Desk:
    rng = random.Random(f"{seed}/jobs")
    found = jobs.jobs(skin, rng, _THINGS)
    draft = partial(jobs.draft, skin=skin, rules=rules, rng=rng)

    def things(family: str) -> list[jobs.Job]:
        return [one for one in found if one.archived == family.startswith("old")]

    train, test = draw_tasks(f"{skin.name}/jobs", jobs.FAMILIES, things, draft, rng, **sizes)
    return Desk(
        "jobs",
        f"You work at the {skin.job}s desk of {skin.house}.",
        jobs.tools(skin, rules),
        jobs.FAMILIES,
        jobs.manual(skin, rules),
        jobs.records(found),
        train,
        test,
    )


def _members(skin: Skin, written: spellings.Spellings, seed: int, sizes: dict[str, int]) -> Desk:
    rng = random.Random(f"{seed}/members")
    found = accounts.people(skin, rng, _THINGS)
    early = found[: len(found) // 2]

    def draft(family: str, one: accounts.Person) -> Draft:
        return members.draft(family, one, skin, written, rng, is_early=one in early)

    train, test = draw_tasks(
        f"{skin.name}/members", members.FAMILIES, lambda _family: found, draft, rng, **sizes
    )
    return Desk(
        "members",
        f"You work at the {skin.person}s desk of {skin.house}.",
        members.tools(skin, written),
        members.FAMILIES,
        members.manual(skin, written),
        members.records(found),
        train,
        test,
    )


def _bookings(skin: Skin, written: spellings.Spellings, seed: int, sizes: dict[str, int]) -> Desk:
    rng = random.Random(f"{seed}/bookings")
    found = jobs.jobs(skin, rng, _THINGS)
    draft = partial(bookings.draft, skin=skin, spellings=written, rng=rng)

    def things(family: str) -> list[jobs.Job]:
        return [one for one in found if one.archived == family.startswith("old")]

    train, test = draw_tasks(f"{skin.name}/bookings", bookings.FAMILIES, things, draft, rng, **sizes)
    return Desk(
        "bookings",
        f"You work at the {skin.job}s desk of {skin.house}.",
        bookings.tools(skin, written),
        bookings.FAMILIES,
        bookings.manual(skin, written),
        bookings.records(found),
        train,
        test,
    )


def _registers(skin: Skin, rules: Rules, seed: int, sizes: dict[str, int]) -> Desk:
    rng = random.Random(f"{seed}/registers")
    found = registers.articles(skin, rules, rng, _THINGS)
    papers = registers.forms(skin, rng, _THINGS)
    families = registers.families(skin)

    def things(family: str) -> list[registers.Article | str]:
        kind = family.split("_")[1]
        return [*papers[kind]] if kind in papers else [*found[kind]]

    draft = partial(registers.draft, skin=skin)
    train, test = draw_tasks(f"{skin.name}/registers", families, things, draft, rng, **sizes)
    return Desk(
        registers.NAME,
        f"You work at the registers desk of {skin.house}.",
        registers.tools(skin, rules),
        families,
        registers.manual(skin, rules),
        registers.records(found, papers, rules),
        train,
        test,
    )
