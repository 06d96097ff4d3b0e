"""The registers desk: search. Every kind of article is in one place only, every form is taken at one counter.

Nothing tells which: the places' tools are described alike, and honestly. It shows by trying.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wesichain.tools import ToolError, ToolErrorKind

from .rules import Rules
from .sampling import ID, Draft, Records
from .skins import Skin
from .values import DeskTool, Family, Goal

NAME = "registers"  # of the desk
TABLES = """
CREATE TABLE articles (code TEXT PRIMARY KEY, place TEXT, shelf TEXT, grams INTEGER);
CREATE TABLE forms (id TEXT PRIMARY KEY, counter TEXT, state TEXT);
"""


@dataclass(frozen=True, slots=True)
class Article:
    code: str
    shelf: str
    grams: int


def families(skin: Skin) -> tuple[Family, ...]:
    one, two, three, four = skin.kinds
    return (
        *(Family(f"shelf_{kind}", "place", 1, trained=True, search=True) for kind in (one, two, three, four)),
        *(Family(f"weight_{kind}", "place", 1, trained=False, search=True) for kind in (one, two, three)),
        *(Family(f"form_{kind}", "counter", 1, trained=True, search=True) for kind in skin.form_kinds),
    )


def articles(skin: Skin, rules: Rules, rng: random.Random, count: int) -> dict[str, list[Article]]:
    """Articles of each kind. Where a kind is also exported, the codes of every other article end in X."""
    found: dict[str, list[Article]] = {}
    for kind in skin.kinds:
        numbers = rng.sample(range(1000, 9999), count)
        ends = ["X" if kind in rules.exported and place % 2 else "" for place in range(count)]
        found[kind] = [
            Article(
                f"{kind}-{number}{end}",
                f"{rng.choice('STUVW')}{rng.randint(10, 99)}",
                rng.randint(11, 97) * 10,
            )
            for number, end in zip(numbers, ends, strict=True)
        ]
    return found


def forms(skin: Skin, rng: random.Random, count: int) -> dict[str, list[str]]:
    return {
        kind: [f"{kind}-{number}" for number in rng.sample(range(100, 999), count)]
        for kind in skin.form_kinds
    }


def place_of(code: str, rules: Rules) -> str:
    kind = code.split("-")[0]
    return rules.exported[kind] if code.endswith("X") and kind in rules.exported else rules.places[kind]


def records(found: dict[str, list[Article]], papers: dict[str, list[str]], rules: Rules) -> str:
    lines = Records(TABLES)
    for one in (article for kind in found.values() for article in kind):
        lines.add("articles", one.code, place_of(one.code, rules), one.shelf, one.grams)
    for kind, numbers in papers.items():
        for number in numbers:
            lines.add("forms", number, rules.counters[kind], "open")
    return lines.text


def ways(skin: Skin, rules: Rules) -> dict[str, tuple[str, str]]:
    """Of each family the word that its tasks have in common, and the only tool that does for them."""
    found: dict[str, tuple[str, str]] = {}
    for family in families(skin):
        kind = family.name.split("_")[1]
        if kind in rules.places:
            found[family.name] = (skin.kinds[kind], f"look_in_{rules.places[kind]}")
        else:
            found[family.name] = (skin.form_kinds[kind], rules.name(f"hand_in_{rules.counters[kind]}"))
    return found


def manual(skin: Skin, rules: Rules) -> dict[str, str]:
    where: list[str] = []
    for kind, place in rules.places.items():
        word = f"{skin.kinds[kind]} ({kind}-)"
        if kind in rules.exported:
            where.append(f"sealed {word}: look_in_{rules.exported[kind]}; other {word}: look_in_{place}")
        else:
            where.append(f"{word}: look_in_{place}")
    taken = "; ".join(
        f"{skin.form_kinds[kind]} ({kind}-): {rules.name(f'hand_in_{at}')}"
        for kind, at in rules.counters.items()
    )
    return {
        "place": f"Where a {skin.article} is, by its kind: {'; '.join(where)}.",
        "counter": f"Where a {skin.form} is taken, by its kind: {taken}.",
    }


def tools(skin: Skin, rules: Rules) -> tuple[DeskTool, ...]:
    return (
        *(_look(place, skin) for place in skin.places),
        *(_hand_in(counter, skin, rules) for counter in skin.counters),
    )


def _look(place: str, skin: Skin) -> DeskTool:
    def look(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = db.execute(
            "SELECT shelf, grams FROM articles WHERE code = ? AND place = ?", (args["code"], place)
        ).fetchone()
        if row is None:
            raise ToolError(
                f"no {skin.article} {args['code']!r} in the {place}", kind=ToolErrorKind.NOT_FOUND
            )
        return {"code": args["code"], "shelf": row[0], "grams": row[1]}

    about = f"Look up a {skin.article} in the {place}: its shelf and its weight."
    return DeskTool(f"look_in_{place}", about, {"code": ID}, look)


def _hand_in(counter: str, skin: Skin, rules: Rules) -> DeskTool:
    def hand_in(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        number = args[skin.form]
        done = db.execute(
            "UPDATE forms SET state = 'handed in' WHERE id = ? AND counter = ?", (number, counter)
        )
        if done.rowcount == 0:
            raise ToolError(
                f"the {counter} counter does not take {number!r}", kind=ToolErrorKind.INVALID_INPUT
            )
        return {"taken": True}

    name = rules.name(f"hand_in_{counter}")
    return DeskTool(name, f"Hand in a {skin.form} at the {counter} counter.", {skin.form: ID}, hand_in)


def draft(family: str, thing: Article | str, skin: Skin) -> Draft:
    """The question in four wordings, and its goal."""
    if isinstance(thing, str):
        paper = f"{skin.form_kinds[thing.split('-')[0]]} {skin.form} {thing}"
        asked = (
            f"Hand in the {paper}.",
            f"The {paper} has to be handed in.",
            f"Please see to it that the {paper} is handed in.",
            f"Get the {paper} handed in at the right counter.",
        )
        return Draft(asked, Goal((("UPDATE forms SET state = 'handed in' WHERE id = ?", (thing,)),)))
    sealed = "sealed " if thing.code.endswith("X") else ""
    ref = f"the {sealed}{skin.kinds[thing.code.split('-')[0]]} {skin.article} {thing.code}"
    if family.startswith("shelf_"):
        asked = (
            f"On which shelf is {ref}?",
            f"Which shelf has {ref}?",
            f"Tell me the shelf of {ref}.",
            f"Where does {ref} stand, on which shelf?",
        )
        return Draft(asked, Goal(answer=thing.shelf))
    asked = (
        f"How many grams does {ref} weigh?",
        f"What is the weight of {ref} in grams?",
        f"Tell me how heavy {ref} is, in grams.",
        f"Give me the weight in grams of {ref}.",
    )
    return Draft(asked, Goal(answer=str(thing.grams)))
