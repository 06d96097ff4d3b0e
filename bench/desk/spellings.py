"""How the houses of the third round write things: drawn for a world, told by its manual alone.

A tool that is given another spelling either refuses it and tells how (telling), or records it as it is given
(silent): then it shows only in what a user says about the records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, time

from wesichain.tools import ToolError, ToolErrorKind

from .rules import DAYS, UNITS
from .values import Style

HOURS = {"1430": "%H%M", "14.30": "%H.%M", "14:30:00": "%H:%M:%S"}
REACHES = {"centimetres": 100, "millimetres": 1000, "tenths of a metre": 10}
CODES: Mapping[str, Callable[[str, str], str]] = {
    "KX41": lambda letters, digits: f"{letters.upper()}{digits}",
    "kx-41": lambda letters, digits: f"{letters}-{digits}",
    "KX/41": lambda letters, digits: f"{letters.upper()}/{digits}",
}
CONTACTS = {"Doe, Jane": "{family}, {given}", "Doe Jane": "{family} {given}"}
NAMES = ("day", "birthday", "hour", "unit", "reach", "code", "contact", "scale", "order", "archive")


@dataclass(frozen=True, slots=True)
class Spellings:
    """How one world writes days, hours, amounts, lengths, codes and names."""

    day: str
    birthday: str
    hour: str
    unit: str
    reach: str
    code: str
    contact: str
    first_is_highest: bool
    styles: Mapping[str, Style]

    def day_of(self, day: date) -> str:
        return day.strftime(DAYS[self.day])

    def birthday_of(self, day: date) -> str:
        return day.strftime(DAYS[self.birthday])

    def hour_of(self, hour: time) -> str:
        return hour.strftime(HOURS[self.hour])

    def code_of(self, letters: str, digits: str) -> str:
        return CODES[self.code](letters, digits)

    def contact_of(self, given: str, family: str) -> str:
        return CONTACTS[self.contact].format(given=given, family=family)

    @property
    def units(self) -> int:
        """Of an amount in a euro."""
        return UNITS[self.unit]

    @property
    def lengths(self) -> int:
        """Of a length in a metre."""
        return REACHES[self.reach]

    def tells(self, rule: str) -> bool:
        return self.styles[rule] == "telling"

    def check(self, rule: str, name: str, given: object, *, is_right: bool, hint: str) -> None:
        """Refuse what is spelled otherwise, where the rule is told."""
        if not is_right and self.tells(rule):
            raise ToolError(f"{name} {given!r} refused: {hint}", kind=ToolErrorKind.INVALID_INPUT)


def draw(rng: random.Random, *, level: int) -> Spellings:
    """Level 1: tools tell what is wrong. Level 3: none does. Level 2: every other rule, drawn."""
    telling = set(rng.sample(NAMES, len(NAMES) // 2))
    styles: dict[str, Style] = {
        name: "telling" if level == 1 or (level == 2 and name in telling) else "silent" for name in NAMES
    }
    return Spellings(
        day=rng.choice(list(DAYS)),
        birthday=rng.choice(list(DAYS)),
        hour=rng.choice(list(HOURS)),
        unit=rng.choice(list(UNITS)),
        reach=rng.choice(list(REACHES)),
        code=rng.choice(list(CODES)),
        contact=rng.choice(list(CONTACTS)),
        first_is_highest=rng.random() < 0.5,
        styles=styles,
    )


def drifted(spellings: Spellings) -> Spellings:
    """The same house later: amounts have another unit."""
    units = list(UNITS)
    return replace(spellings, unit=units[(units.index(spellings.unit) + 1) % len(units)])
