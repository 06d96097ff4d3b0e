"""The jobs desk: jobs that are planned, prepared, begun, ranked, called off, and kept in an archive."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from wesichain.tools import ToolError, ToolErrorKind

from .rules import DAYS, Rules, refuse
from .sampling import ID, TEXT, Draft, Records
from .skins import Skin
from .values import DeskTool, Family, Goal

FAMILIES = (
    Family("handler_by_id", "", 1, trained=True),
    Family("cancel_by_id", "", 1, trained=True),
    Family("cancel_by_name", "", 2, trained=False),
    Family("schedule_by_id", "day", 1, trained=True),
    Family("schedule_by_name", "day", 2, trained=False),
    Family("release_by_id", "order", 2, trained=True),
    Family("release_by_name", "order", 3, trained=False),
    Family("oldhandler_by_id", "archive", 1, trained=True),
    Family("oldstate_by_id", "archive", 1, trained=False),
    Family("priority_by_id", "scale", 1, trained=True),
)
TABLES = """
CREATE TABLE jobs (id TEXT PRIMARY KEY, name TEXT, handler TEXT, state TEXT, day TEXT, ready INTEGER,
    priority INTEGER, old_handler TEXT, old_state TEXT);
"""
STATES = ("planned", "waiting", "billed", "closed")


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str
    handler: str
    state: str
    stale_handler: str
    stale_state: str

    @property
    def archived(self) -> bool:
        return self.id.split("-")[1].startswith("0")


def jobs(skin: Skin, rng: random.Random, count: int) -> list[Job]:
    """Every other job is archived: its number begins with 0, and the live register has a stale copy of it."""
    numbers = rng.sample(range(1000, 9999), count)
    subjects = [
        f"{subject} {roman}" for subject in skin.subjects for roman in ("One", "Two", "Three", "Four")
    ]
    found: list[Job] = []
    for place, (number, name) in enumerate(zip(numbers, rng.sample(subjects, count), strict=True)):
        handlers = rng.sample(skin.family, 2)
        states = rng.sample(STATES[1:], 2)
        code = f"0{number % 1000:03d}" if place % 2 else str(number)
        state = states[0] if place % 2 else "planned"
        found.append(Job(f"{skin.job_prefix}-{code}", name, handlers[0], state, handlers[1], states[1]))
    return found


def records(found: list[Job]) -> str:
    lines = Records(TABLES)
    for one in found:
        stale = (one.stale_handler, one.stale_state) if one.archived else (one.handler, one.state)
        lines.add("jobs", one.id, one.name, *stale, "", 0, 3, one.handler, one.state)
    return lines.text


def manual(skin: Skin, rules: Rules) -> dict[str, str]:
    job, example = skin.job, rules.day_of(date(2027, 3, 14))
    highest = 1 if rules.first_is_highest else 5
    return {
        "day": f"{skin.schedule} takes the day written like {example} for 14 March 2027.",
        "order": f"Call {skin.prepare} with the id first, then {skin.release}: without it nothing can begin.",
        "archive": f"A {job} whose number begins with 0 is archived: show_{job} is out of date for it, "
        f"use show_archived_{job}.",
        "scale": f"rank_{job}: rank {highest} is the most urgent, {6 - highest} the least.",
    }


def tools(skin: Skin, rules: Rules) -> tuple[DeskTool, ...]:  # noqa: C901  # a tool is a few lines
    job = skin.job

    def known(db: sqlite3.Connection, number: str) -> dict[str, Any]:
        names = ("id", "name", "handler", "state", "day", "ready", "old_handler", "old_state")
        row = db.execute(f"SELECT {', '.join(names)} FROM jobs WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise ToolError(
                f"no {job} has the id {number!r}; ids look like {skin.job_prefix}-1234",
                kind=ToolErrorKind.NOT_FOUND,
            )
        return dict(zip(names, row, strict=True))

    def find(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = db.execute("SELECT id FROM jobs WHERE name = ?", (args[skin.subject],)).fetchone()
        if row is None:
            raise ToolError(
                f"there is no {job} for the {skin.subject} {args[skin.subject]!r}",
                kind=ToolErrorKind.NOT_FOUND,
            )
        return {"id": row[0]}

    def show(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = known(db, args["id"])
        shown = {"id": row["id"], skin.subject: row["name"], "handler": row["handler"], "state": row["state"]}
        archived = row["id"].split("-")[1].startswith("0")
        if archived and rules.styles["archive"] == "telling":
            return {**shown, "remark": "old copy, moved to the archive"}
        return shown

    def show_archived(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = known(db, args["id"])
        if not row["id"].split("-")[1].startswith("0"):
            raise ToolError(f"{row['id']} is not in the archive", kind=ToolErrorKind.NOT_FOUND)
        return {
            "id": row["id"],
            skin.subject: row["name"],
            "handler": row["old_handler"],
            "state": row["old_state"],
        }

    def schedule(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        try:
            day = datetime.strptime(args["day"], DAYS[rules.day]).date()  # noqa: DTZ007  # a day has no zone
        except ValueError:
            example = rules.day_of(date(2027, 3, 14))
            raise refuse(
                rules,
                "day",
                told=f"day {args['day']!r} refused: days are written like {example}",
                opaque=f"day {args['day']!r} refused",
            ) from None
        db.execute("UPDATE jobs SET day = ? WHERE id = ?", (day.isoformat(), args["id"]))
        return {"planned": True}

    def prepare(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        db.execute("UPDATE jobs SET ready = 1 WHERE id = ?", (args["id"],))
        return {"done": True}

    def release(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        if not known(db, args["id"])["ready"]:
            raise refuse(
                rules,
                "order",
                told=f"{args['id']} cannot begin: {skin.prepare} has not been done",
                opaque=f"{args['id']} cannot begin",
            )
        db.execute("UPDATE jobs SET state = 'running' WHERE id = ?", (args["id"],))
        return {"begun": True}

    def cancel(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        db.execute("UPDATE jobs SET state = 'cancelled' WHERE id = ?", (args["id"],))
        return {"cancelled": True}

    def rank(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        known(db, args["id"])
        db.execute("UPDATE jobs SET priority = ? WHERE id = ?", (args["rank"], args["id"]))
        if rules.styles["scale"] == "telling":
            urgency = args["rank"] if rules.first_is_highest else 6 - args["rank"]
            words = ("most urgent", "urgent", "normal", "low", "least urgent")
            return {"ranked": words[int(urgency) - 1]}
        return {"ranked": True}

    number = {"type": "integer", "minimum": 1, "maximum": 5}
    return (
        DeskTool(f"find_{job}", f"Find the id of a {job} by its {skin.subject}.", {skin.subject: TEXT}, find),
        DeskTool(f"show_{job}", f"Show a {job}: its {skin.subject}, handler and state.", {"id": ID}, show),
        DeskTool(
            f"show_archived_{job}",
            f"Show a {job} from the archive: its {skin.subject}, handler and state.",
            {"id": ID},
            show_archived,
        ),
        DeskTool(skin.schedule, f"Plan the day of a {job}.", {"id": ID, "day": TEXT}, schedule),
        DeskTool(
            skin.prepare, f"{skin.prepare.replace('_', ' ').capitalize()} for a {job}.", {"id": ID}, prepare
        ),
        DeskTool(
            skin.release,
            f"{skin.release.replace('_', ' ').capitalize()}: a {job} begins.",
            {"id": ID},
            release,
        ),
        DeskTool(f"cancel_{job}", f"Call off a {job}.", {"id": ID}, cancel),
        DeskTool(f"rank_{job}", f"Set how urgent a {job} is, from 1 to 5.", {"id": ID, "rank": number}, rank),
    )


def handler_of(one: Job, ref: str) -> Draft:
    """Who handles a job; of an archived one, not who did before."""
    asked = (
        f"Who handles {ref}?",
        f"Which person is the handler of {ref}?",
        f"Tell me who the handler of {ref} is.",
        f"Name the handler of {ref}.",
    )
    return Draft(asked, Goal(answer=one.handler, wrong=(one.stale_handler,) if one.archived else ()))


def released(one: Job, ref: str) -> Draft:
    """A job that begins, which has to be prepared first."""
    asked = (
        f"Let {ref} begin.",
        f"{ref[0].upper()}{ref[1:]} can begin now.",
        f"Please begin {ref}.",
        f"Get {ref} going.",
    )
    done = ("UPDATE jobs SET ready = 1, state = 'running' WHERE id = ?", (one.id,))
    return Draft(asked, Goal((done,)))


def draft(family: str, one: Job, skin: Skin, rules: Rules, rng: random.Random) -> Draft:
    """The question in four wordings, and its goal."""
    job = skin.job
    ref = f"the {job} of {one.name}" if family.endswith("_by_name") else f"{job} {one.id}"
    match family.rsplit("_by_", 1)[0]:
        case "handler" | "oldhandler":
            return handler_of(one, ref)
        case "oldstate":
            asked = (
                f"What is the state of {ref}?",
                f"In which state is {ref}?",
                f"Tell me the state of {ref}.",
                f"How does {ref} stand?",
            )
            return Draft(asked, Goal(answer=one.state, wrong=(one.stale_state,)))
        case "cancel":
            asked = (
                f"Call off {ref}.",
                f"{ref[0].upper()}{ref[1:]} will not take place, call it off.",
                f"Please cancel {ref}.",
                f"We do not need {ref} any more: cancel it.",
            )
            return Draft(asked, Goal((("UPDATE jobs SET state = 'cancelled' WHERE id = ?", (one.id,)),)))
        case "schedule":
            day = date(2027, 1, 1) + timedelta(days=rng.randint(13, 350))
            words = f"{day.day} {day.strftime('%B')} {day.year}"
            asked = (
                f"Plan {ref} for {words}.",
                f"{ref[0].upper()}{ref[1:]} is to be on {words}.",
                f"Please put {ref} on {words}.",
                f"Set the day of {ref} to {words}.",
            )
            change = ("UPDATE jobs SET day = ? WHERE id = ?", (day.isoformat(), one.id))
            return Draft(asked, Goal((change,)))
        case "release":
            return released(one, ref)
        case _:
            most = rng.random() < 0.5
            word = "most urgent" if most else "least urgent"
            rank = (1 if rules.first_is_highest else 5) if most else (5 if rules.first_is_highest else 1)
            asked = (
                f"Rank {ref} as {word}.",
                f"{ref[0].upper()}{ref[1:]} is {word}: rank it so.",
                f"Give {ref} the rank of the {word} ones.",
                f"Make {ref} the {word}.",
            )
            return Draft(asked, Goal((("UPDATE jobs SET priority = ? WHERE id = ?", (rank, one.id)),)))
