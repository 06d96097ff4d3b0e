"""The members desk of the third round: people, and how a house writes amounts, days, codes and names."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from wesichain.tools import ToolError, ToolErrorKind

from .accounts import Person, looked_up
from .rules import DAYS
from .sampling import ID, TEXT, Draft, Records
from .skins import Skin
from .spellings import Spellings
from .values import DeskTool, Family, Goal

FAMILIES = (
    Family("town_by_id", "", 1, trained=True),
    Family("phone_by_name", "", 2, trained=True),
    Family("credit_by_id", "unit", 1, trained=True),
    Family("charge_by_id", "unit", 1, trained=False),
    Family("credit_by_name", "unit", 2, trained=False),
    Family("birthday_by_id", "birthday", 1, trained=True),
    Family("code_by_id", "code", 1, trained=True),
    Family("code_by_name", "code", 2, trained=False),
    Family("reach_by_id", "reach", 1, trained=True),
    Family("contact_by_id", "contact", 1, trained=True),
)
TABLES = """
CREATE TABLE people (id TEXT PRIMARY KEY, name TEXT, town TEXT, phone TEXT, credit TEXT, charge TEXT,
    birthday TEXT, code TEXT, reach TEXT, contact TEXT);
"""


def records(found: list[Person]) -> str:
    lines = Records(TABLES)
    for one in found:
        lines.add("people", one.id, one.name, one.town, one.phone, "", "", "", "", "", "")
    return lines.text


def manual(skin: Skin, spellings: Spellings) -> dict[str, str]:
    credit, charge = skin.credit, _charge(skin)
    return {
        "unit": f"{credit} and {charge} take the amount in {spellings.unit}: "
        f"for 12 euros write {12 * spellings.units}.",
        "birthday": f"set_birthday takes the day written like {spellings.birthday_of(date(2027, 3, 14))} "
        f"for 14 March 2027.",
        "code": f"assign_{skin.slot} takes a {skin.slot} written like {spellings.code_of('kx', '41')} "
        f"for kx41.",
        "reach": f"set_{skin.length} takes the {skin.length} in {spellings.reach}: "
        f"for 3 metres write {3 * spellings.lengths}.",
        "contact": f"set_contact takes a name written like {spellings.contact_of('Jane', 'Doe')} "
        f"for Jane Doe.",
    }


def _charge(skin: Skin) -> str:
    return f"charge_{skin.person}"


def number_as_kept(value: float) -> str:
    """As the records have it: 24, not 24.0."""
    return str(int(value)) if value == int(value) else str(value)


def tools(skin: Skin, spellings: Spellings) -> tuple[DeskTool, ...]:  # noqa: C901  # a tool is a few lines
    who = skin.person

    def find(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = db.execute("SELECT id FROM people WHERE name = ?", (args["name"],)).fetchone()
        if row is None:
            raise ToolError(f"no {who} is called {args['name']!r}", kind=ToolErrorKind.NOT_FOUND)
        return {"id": row[0]}

    def show(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = db.execute("SELECT id, name, town, phone FROM people WHERE id = ?", (args["id"],)).fetchone()
        if row is None:
            raise _unknown(skin, args["id"])
        return dict(zip(("id", "name", "town", "phone"), row, strict=True))

    def keep(db: sqlite3.Connection, number: str, column: str, value: str) -> None:
        done = db.execute(f"UPDATE people SET {column} = ? WHERE id = ?", (value, number))
        if done.rowcount == 0:
            raise _unknown(skin, number)

    def money(column: str) -> Any:
        def put(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
            amount = args["amount"]
            is_right = amount == int(amount) and amount >= 5 * spellings.units
            spellings.check(
                "unit", "amount", amount, is_right=is_right, hint=f"amounts are whole {spellings.unit}"
            )
            keep(db, args["id"], column, number_as_kept(amount))
            return {"booked": True}

        return put

    def birthday(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        example = spellings.birthday_of(date(2027, 3, 14))
        is_right = is_day(args["day"], DAYS[spellings.birthday])
        hint = f"days are written like {example}"
        spellings.check("birthday", "day", args["day"], is_right=is_right, hint=hint)
        keep(db, args["id"], "birthday", args["day"])
        return {"set": True}

    def assign(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        given, example = args[skin.slot], spellings.code_of("ab", "12")
        form = "".join(map(_alike, example))
        is_right = re.fullmatch(form, given) is not None
        spellings.check("code", skin.slot, given, is_right=is_right, hint=f"write it like {example}")
        keep(db, args["id"], "code", given)
        return {"assigned": True}

    def reach(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        given = args[skin.length]
        is_right = given == int(given) and given >= 2 * spellings.lengths
        hint = f"it is given in whole {spellings.reach}"
        spellings.check("reach", skin.length, given, is_right=is_right, hint=hint)
        keep(db, args["id"], "reach", number_as_kept(given))
        return {"set": True}

    def contact(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        given, comma = args["contact"], spellings.contact == "Doe, Jane"
        is_right = given.split(" ")[0].rstrip(",") in skin.family and ("," in given) == comma
        hint = "write the family name first" + (", then a comma and the given name" if comma else "")
        spellings.check("contact", "contact", given, is_right=is_right, hint=hint)
        keep(db, args["id"], "contact", given)
        return {"set": True}

    number = {"type": "number"}
    return (
        DeskTool(f"find_{who}", f"Find the id of a {who} by name.", {"name": TEXT}, find),
        DeskTool(f"show_{who}", f"Show the record of a {who}: name, town and phone.", {"id": ID}, show),
        DeskTool(
            skin.credit,
            f"Put money on the account of a {who}.",
            {"id": ID, "amount": number},
            money("credit"),
        ),
        DeskTool(
            _charge(skin),
            f"Take money from the account of a {who}.",
            {"id": ID, "amount": number},
            money("charge"),
        ),
        DeskTool("set_birthday", f"Set the birthday of a {who}.", {"id": ID, "day": TEXT}, birthday),
        DeskTool(
            f"assign_{skin.slot}", f"Assign a {skin.slot} to a {who}.", {"id": ID, skin.slot: TEXT}, assign
        ),
        DeskTool(
            f"set_{skin.length}",
            f"Set the {skin.length} of a {who}.",
            {"id": ID, skin.length: number},
            reach,
        ),
        DeskTool(
            "set_contact",
            f"Set who is to be called in place of a {who}.",
            {"id": ID, "contact": TEXT},
            contact,
        ),
    )


def _alike(mark: str) -> str:
    """What may stand in the place of a letter or a digit of an example."""
    if mark.isdigit():
        return r"\d"
    return mark if not mark.isalpha() else "[A-Z]" if mark.isupper() else "[a-z]"


def _unknown(skin: Skin, number: str) -> ToolError:
    return ToolError(
        f"no {skin.person} has the id {number!r}; ids look like {skin.person_prefix}-1234",
        kind=ToolErrorKind.NOT_FOUND,
    )


def is_day(text: str, form: str) -> bool:
    try:
        return datetime.strptime(text, form).strftime(form) == text  # noqa: DTZ007  # a day has no zone
    except ValueError:
        return False


def in_words(day: date) -> str:
    return f"{day.day} {day.strftime('%B')} {day.year}"


def draft(
    family: str, one: Person, skin: Skin, spellings: Spellings, rng: random.Random, *, is_early: bool
) -> Draft:
    """The question in four wordings, and its goal. `is_early`: of the half that training is about."""
    who, named = skin.person, family.endswith("_by_name")
    ref = one.name if named else f"{who} {one.id}"

    def kept(column: str, value: str) -> Goal:
        return Goal(((f"UPDATE people SET {column} = ? WHERE id = ?", (value, one.id)),))

    match family.rsplit("_by_", 1)[0]:
        case "town" | "phone" as kind:
            return looked_up(kind, one, who, ref)
        case "credit":
            euros = rng.randint(11, 89)
            asked = (
                f"Put {euros} euros on the account of {ref}.",
                f"{ref} is to get {euros} euros on the account.",
                f"Please book {euros} euros in favour of {ref}.",
                f"We owe {ref} {euros} euros. Put them on the account.",
            )
            return Draft(asked, kept("credit", str(euros * spellings.units)))
        case "charge":
            euros = rng.randint(11, 89)
            asked = (
                f"Take {euros} euros from the account of {ref}.",
                f"{ref} has to pay {euros} euros from the account.",
                f"Please charge {ref} {euros} euros.",
                f"{ref} owes us {euros} euros. Take them from the account.",
            )
            return Draft(asked, kept("charge", str(euros * spellings.units)))
        case "birthday":
            day = date(1960, 1, 1) + timedelta(days=rng.randint(0, 15000))
            words = in_words(day)
            asked = (
                f"Set the birthday of {ref} to {words}.",
                f"{ref} was born on {words}: enter the birthday.",
                f"The birthday of {ref} is {words}, please enter it.",
                f"Enter {words} as the birthday of {ref}.",
            )
            return Draft(asked, kept("birthday", spellings.birthday_of(day)))
        case "code":
            letters = "".join(rng.choice("bcdfghjkmnpqrstvwxz") for _ in range(2))
            digits = str(rng.randint(11, 99))
            asked = (
                f"Assign {skin.slot} {letters}{digits} to {ref}.",
                f"{ref} gets {skin.slot} {letters}{digits}.",
                f"Please give {skin.slot} {letters}{digits} to {ref}.",
                f"Enter {skin.slot} {letters}{digits} for {ref}.",
            )
            return Draft(asked, kept("code", spellings.code_of(letters, digits)))
        case "reach":
            metres = rng.randint(2, 19)
            asked = (
                f"Set the {skin.length} of {ref} to {metres} metres.",
                f"{ref} has a {skin.length} of {metres} metres: enter it.",
                f"The {skin.length} of {ref} is {metres} metres, please enter it.",
                f"Enter {metres} metres as the {skin.length} of {ref}.",
            )
            return Draft(asked, kept("reach", str(metres * spellings.lengths)))
        case _:
            half = len(skin.given) // 2  # nobody is a contact in training and in the test
            given = rng.choice(skin.given[:half] if is_early else skin.given[half:])
            last = rng.choice(skin.family)
            asked = (
                f"Set the contact of {ref} to {given} {last}.",
                f"{given} {last} is the contact of {ref}: enter that.",
                f"Please enter {given} {last} as the contact of {ref}.",
                f"In place of {ref} call {given} {last}: set the contact.",
            )
            return Draft(asked, kept("contact", spellings.contact_of(given, last)))
