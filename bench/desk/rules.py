"""The rules that nobody wrote down: drawn for a world, kept by its tools, told by the manual alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from wesichain.tools import ToolError, ToolErrorKind

from .skins import Skin
from .values import Style

UNITS = {"cents": 100, "tenths of a euro": 10, "thousandths of a euro": 1000}
DAYS = {"14.03.2027": "%d.%m.%Y", "20270314": "%Y%m%d", "03/14/2027": "%m/%d/%Y"}
SLOTS = {"B-07": "{row}-{number:02d}", "07B": "{number:02d}{row}", "B/7": "{row}/{number}"}
LENGTHS = {"minutes": 60, "quarters of an hour": 4, "half hours": 2}
NAMES = ("unit", "slot", "post", "length", "day", "order", "archive", "scale", "place", "counter")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one world, and how its tools answer a call that breaks one."""

    unit: str
    day: str
    slot: str
    length: str
    first_is_highest: bool
    places: Mapping[str, str]  # kind of article -> the only place that has it
    counters: Mapping[str, str]  # kind of form -> the only counter that takes it
    styles: Mapping[str, Style]
    renamed: Mapping[str, str]  # tools that have another name than their subject gives them
    exported: Mapping[str, str]  # kind of article -> the place of codes that end in X, where it differs

    def day_of(self, day: date) -> str:
        return day.strftime(DAYS[self.day])

    def slot_of(self, row: str, number: int) -> str:
        return SLOTS[self.slot].format(row=row, number=number)

    def name(self, tool: str) -> str:
        return self.renamed.get(tool, tool)


def draw(skin: Skin, rng: random.Random, *, level: int) -> Rules:
    """Level 1: tools tell what is wrong. Level 3: none does. Level 2: every other rule, drawn."""
    telling = set(rng.sample(NAMES, len(NAMES) // 2))
    styles: dict[str, Style] = {}
    for name in NAMES:
        told = level == 1 or (level == 2 and name in telling)
        styles[name] = "telling" if told else "opaque"
    return Rules(
        unit=rng.choice(list(UNITS)),
        day=rng.choice(list(DAYS)),
        slot=rng.choice(list(SLOTS)),
        length=rng.choice(list(LENGTHS)),
        first_is_highest=rng.random() < 0.5,
        places=dict(zip(skin.kinds, rng.sample(skin.places, len(skin.kinds)), strict=True)),
        counters=dict(zip(skin.form_kinds, rng.sample(skin.counters, len(skin.form_kinds)), strict=True)),
        styles=styles,
        renamed={},
        exported={},
    )


def refuse(rules: Rules, rule: str, *, told: str, opaque: str) -> ToolError:
    """The error of a call that breaks a rule."""
    return ToolError(told if rules.styles[rule] == "telling" else opaque, kind=ToolErrorKind.INVALID_INPUT)


def drifted(rules: Rules, skin: Skin) -> Rules:
    """The same world later: two kinds have changed places, credit has another unit, a tool another name."""
    one, two, *_ = skin.kinds
    places = {**rules.places, one: rules.places[two], two: rules.places[one]}
    units = list(UNITS)
    unit = units[(units.index(rules.unit) + 1) % len(units)]
    old = f"hand_in_{rules.counters[next(iter(skin.form_kinds))]}"
    renamed = {old: old.replace("hand_in_", "file_at_")}
    return replace(rules, places=places, unit=unit, renamed=renamed)


def touched_by_drift(skin: Skin) -> set[str]:
    """The families with training tasks that the drift concerns."""
    one, two, *_ = skin.kinds
    return {f"shelf_{one}", f"shelf_{two}", "credit_by_id", f"form_{next(iter(skin.form_kinds))}"}


def conditional(rules: Rules, skin: Skin) -> Rules:
    """The same world where sealed articles (their codes end in X) are elsewhere: a condition that shows."""
    free = [place for place in skin.places if place not in rules.places.values()]
    others = [*free, *(rules.places[kind] for kind in reversed(list(skin.kinds)))]
    exported: dict[str, str] = {}
    for kind in list(skin.kinds)[:2]:
        exported[kind] = next(place for place in others if place != rules.places[kind])
    return replace(rules, exported=exported)
