"""The accounts desk: people, their money, places, notes and visits."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wesichain.tools import ToolError, ToolErrorKind

from .rules import LENGTHS, UNITS, Rules, refuse
from .sampling import ID, TEXT, Draft, Records, quoted
from .skins import Skin
from .values import DeskTool, Family, Goal

FAMILIES = (
    Family("town_by_id", "", 1, trained=True),
    Family("phone_by_name", "", 2, trained=True),
    Family("credit_by_id", "unit", 1, trained=True),
    Family("credit_by_name", "unit", 2, trained=False),
    Family("slot_by_id", "slot", 1, trained=True),
    Family("slot_by_name", "slot", 2, trained=False),
    Family("note_by_id", "post", 2, trained=True),
    Family("note_by_name", "post", 3, trained=False),
    Family("length_by_id", "length", 1, trained=True),
    Family("length_by_name", "length", 2, trained=False),
)
TABLES = """
CREATE TABLE people (id TEXT PRIMARY KEY, name TEXT, town TEXT, phone TEXT, cents INTEGER, slot TEXT,
    length INTEGER);
CREATE TABLE notes (id INTEGER PRIMARY KEY, person TEXT, text TEXT, posted INTEGER);
"""


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    town: str
    phone: str
    hours: int


def people(skin: Skin, rng: random.Random, count: int) -> list[Person]:
    names = [f"{given} {family}" for given in skin.given for family in skin.family]
    ids = rng.sample(range(1000, 9999), count)
    return [
        Person(
            f"{skin.person_prefix}-{number}",
            name,
            rng.choice(skin.towns),
            f"{rng.randint(200, 999)} {rng.randint(1000, 9999)}",
            rng.randint(2, 9),
        )
        for number, name in zip(ids, rng.sample(names, count), strict=True)
    ]


def records(found: list[Person], rules: Rules) -> str:
    lines = Records(TABLES)
    for one in found:
        length = one.hours * LENGTHS[rules.length]
        lines.add("people", one.id, one.name, one.town, one.phone, 0, "", length)
    return lines.text


def manual(skin: Skin, rules: Rules) -> dict[str, str]:
    factor, divisor = UNITS[rules.unit], LENGTHS[rules.length]
    return {
        "unit": f"{rules.name(skin.credit)} takes the amount in {rules.unit}, as a whole number: "
        f"for 12.50 euros write {round(12.5 * factor)}.",
        "slot": f"assign_{skin.slot} takes a {skin.slot} written like {rules.slot_of('B', 7)} for B7.",
        "post": "add_note only drafts a note: call post_note with the note's number afterwards.",
        "length": f"The {skin.length} that show_{skin.person} gives is in {rules.length}: "
        f"divide it by {divisor} to get hours.",
    }


def tools(skin: Skin, rules: Rules) -> tuple[DeskTool, ...]:  # noqa: C901  # a tool is a few lines
    who = skin.person

    def find(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = db.execute("SELECT id FROM people WHERE name = ?", (args["name"],)).fetchone()
        if row is None:
            raise ToolError(f"no {who} is called {args['name']!r}", kind=ToolErrorKind.NOT_FOUND)
        return {"id": row[0]}

    def known(db: sqlite3.Connection, number: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = db.execute(
            "SELECT id, name, town, phone, length FROM people WHERE id = ?", (number,)
        ).fetchone()
        if row is None:
            raise ToolError(
                f"no {who} has the id {number!r}; ids look like {skin.person_prefix}-1234",
                kind=ToolErrorKind.NOT_FOUND,
            )
        return row

    def show(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = known(db, args["id"])
        shown = {"id": row[0], "name": row[1], "town": row[2], "phone": row[3]}
        unit = f" {rules.length}" if rules.styles["length"] == "telling" else ""
        return {**shown, skin.length: f"{row[4]}{unit}" if unit else row[4]}

    def credit(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        amount = args["amount"]
        if amount != int(amount) or amount < UNITS[rules.unit]:
            raise refuse(
                rules,
                "unit",
                told=f"amount {amount} refused: amounts are whole {rules.unit}",
                opaque=f"amount {amount} refused",
            )
        cents = round(int(amount) * 100 / UNITS[rules.unit])
        db.execute("UPDATE people SET cents = cents + ? WHERE id = ?", (cents, args["id"]))
        return {"booked": True}

    def assign(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        given = args[skin.slot]
        allowed = {rules.slot_of(row, number) for row in "ABCDEF" for number in range(1, 40)}
        if given not in allowed:
            raise refuse(
                rules,
                "slot",
                told=f"{skin.slot} {given!r} refused: write it like {rules.slot_of('B', 7)}",
                opaque=f"{skin.slot} {given!r} refused",
            )
        db.execute("UPDATE people SET slot = ? WHERE id = ?", (given, args["id"]))
        return {"assigned": True}

    def add_note(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        made = db.execute(
            "INSERT INTO notes (person, text, posted) VALUES (?, ?, 0)", (args["id"], args["text"])
        )
        said: dict[str, Any] = {"note": made.lastrowid}
        return {**said, "state": "draft, not posted"} if rules.styles["post"] == "telling" else said

    def post_note(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        done = db.execute("UPDATE notes SET posted = 1 WHERE id = ?", (args["note"],))
        if done.rowcount == 0:
            raise ToolError(f"there is no note {args['note']}", kind=ToolErrorKind.NOT_FOUND)
        return {"posted": True}

    return (
        DeskTool(f"find_{who}", f"Find the id of a {who} by name.", {"name": TEXT}, find),
        DeskTool(
            f"show_{who}",
            f"Show the record of a {who}: name, town, phone, and how long the last {skin.length} was.",
            {"id": ID},
            show,
        ),
        DeskTool(
            rules.name(skin.credit),
            f"Put money on the account of a {who}.",
            {"id": ID, "amount": {"type": "number"}},
            credit,
        ),
        DeskTool(
            f"assign_{skin.slot}", f"Assign a {skin.slot} to a {who}.", {"id": ID, skin.slot: TEXT}, assign
        ),
        DeskTool("add_note", f"Write a note about a {who}.", {"id": ID, "text": TEXT}, add_note),
        DeskTool(
            "post_note",
            "Post a note, by the number of the note.",
            {"note": {"type": "integer", "format": "id"}},
            post_note,
        ),
    )


def looked_up(kind: str, one: Person, who: str, ref: str) -> Draft:
    """What stands in a person's record."""
    if kind == "town":
        asked = (
            f"In which town does {ref} live?",
            f"Which town is {ref} from?",
            f"Tell me the home town of {ref}.",
            f"What town stands in the record of {ref}?",
        )
        return Draft(asked, Goal(answer=one.town))
    asked = (
        f"What is the phone number of {ref}?",
        f"Under which number can {who} {ref} be called?",
        f"I need the phone number of our {who} {ref}.",
        f"How do I reach {ref} by phone?",
    )
    return Draft(asked, Goal(answer=one.phone))


def draft(family: str, one: Person, skin: Skin, rules: Rules, rng: random.Random) -> Draft:
    """The question in four wordings, and its goal."""
    who, named = skin.person, family.endswith("_by_name")
    change: tuple[str, tuple[Any, ...]]
    ref = one.name if named else f"{who} {one.id}"
    match family.rsplit("_by_", 1)[0]:
        case "town" | "phone" as kind:
            return looked_up(kind, one, who, ref)
        case "credit":
            euros = rng.randint(5, 60)
            tens = rng.choice((20, 50, 80))
            money = f"{euros}.{tens} euros"
            asked = (
                f"Put {money} on the account of {ref}.",
                f"{ref} is to get {money} on the account.",
                f"Please book {money} for {ref}.",
                f"We owe {ref} {money}. Put it on the account.",
            )
            change = ("UPDATE people SET cents = cents + ? WHERE id = ?", (euros * 100 + tens, one.id))
            return Draft(asked, Goal((change,)))
        case "slot":
            row, number = rng.choice("ABCDEF"), rng.randint(1, 39)
            asked = (
                f"Assign {skin.slot} {row}{number} to {ref}.",
                f"{ref} gets {skin.slot} {row}{number}.",
                f"Please give {skin.slot} {row}{number} to {ref}.",
                f"Enter {skin.slot} {row}{number} for {ref}.",
            )
            change = ("UPDATE people SET slot = ? WHERE id = ?", (rules.slot_of(row, number), one.id))
            return Draft(asked, Goal((change,)))
        case "note":
            text = rng.choice(skin.notes)
            asked = (
                f"Put the note {quoted(text)} on the record of {ref}.",
                f"Write {quoted(text)} as a note about {ref}.",
                f"There should be a note {quoted(text)} about {ref}.",
                f"Leave a note for {ref}: {quoted(text)}",
            )
            change = ("INSERT INTO notes (person, text, posted) VALUES (?, ?, 1)", (one.id, text))
            return Draft(asked, Goal((change,)))
        case _:
            asked = (
                f"How many hours was the last {skin.length} of {ref}?",
                f"The last {skin.length} of {ref}: how many hours?",
                f"Give me the length of the last {skin.length} of {ref} in hours.",
                f"For how many hours was {ref} here at the last {skin.length}?",
            )
            return Draft(asked, Goal(answer=str(one.hours)))
