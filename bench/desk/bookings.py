"""The bookings desk of the third round: jobs, and how a house writes days, hours and ranks."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from datetime import date, time, timedelta
from typing import Any

from wesichain.tools import ToolError, ToolErrorKind

from .jobs import Job, handler_of, released
from .members import in_words, is_day
from .rules import DAYS
from .sampling import ID, TEXT, Draft, Records
from .skins import Skin
from .spellings import HOURS, Spellings
from .values import DeskTool, Family, Goal

FAMILIES = (
    Family("handler_by_id", "", 1, trained=True),
    Family("cancel_by_id", "", 1, trained=True),
    Family("day_by_id", "day", 1, trained=True),
    Family("day_by_name", "day", 2, trained=False),
    Family("due_by_id", "day", 1, trained=False),
    Family("hour_by_id", "hour", 1, trained=True),
    Family("end_by_id", "hour", 1, trained=False),
    Family("rank_by_id", "scale", 1, trained=True),
    Family("release_by_id", "order", 2, trained=True),
    Family("oldhandler_by_id", "archive", 1, trained=True),
)
TABLES = """
CREATE TABLE jobs (id TEXT PRIMARY KEY, name TEXT, handler TEXT, state TEXT, day TEXT, due TEXT, hour TEXT,
    ending TEXT, ready INTEGER, priority INTEGER, old_handler TEXT);
"""


def records(found: list[Job]) -> str:
    lines = Records(TABLES)
    for one in found:
        handler = one.stale_handler if one.archived else one.handler
        lines.add("jobs", one.id, one.name, handler, one.state, "", "", "", "", 0, 3, one.handler)
    return lines.text


def manual(skin: Skin, spellings: Spellings) -> dict[str, str]:
    job, highest = skin.job, 1 if spellings.first_is_highest else 5
    day, hour = spellings.day_of(date(2027, 3, 14)), spellings.hour_of(time(14, 30))
    return {
        "day": f"{skin.schedule} and set_due take the day written like {day} for 14 March 2027.",
        "hour": f"set_hour and set_end take the hour written like {hour} for 2:30 pm.",
        "scale": f"rank_{job}: rank {highest} is the most urgent, {6 - highest} the least.",
        "order": f"Call {skin.prepare} with the id first, then {skin.release}: without it nothing can begin.",
        "archive": f"A {job} whose number begins with 0 is archived: show_{job} is out of date for it, "
        f"use show_archived_{job}.",
    }


def tools(skin: Skin, spellings: Spellings) -> tuple[DeskTool, ...]:  # noqa: C901  # a tool is a few lines
    job = skin.job

    def known(db: sqlite3.Connection, number: str) -> dict[str, Any]:
        names = ("id", "name", "handler", "state", "ready", "old_handler")
        row = db.execute(f"SELECT {', '.join(names)} FROM jobs WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise ToolError(
                f"no {job} has the id {number!r}; ids look like {skin.job_prefix}-1234",
                kind=ToolErrorKind.NOT_FOUND,
            )
        return dict(zip(names, row, strict=True))

    def keep(db: sqlite3.Connection, number: str, column: str, value: str | int) -> None:
        known(db, number)
        db.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (value, number))

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
        if _is_archived(row["id"]) and spellings.tells("archive"):
            return {**shown, "remark": "old copy, moved to the archive"}
        return shown

    def show_archived(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        row = known(db, args["id"])
        if not _is_archived(row["id"]):
            raise ToolError(f"{row['id']} is not in the archive", kind=ToolErrorKind.NOT_FOUND)
        return {"id": row["id"], skin.subject: row["name"], "handler": row["old_handler"]}

    def plan(column: str) -> Any:
        def put(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
            hint = f"days are written like {spellings.day_of(date(2027, 3, 14))}"
            is_right = is_day(args["day"], DAYS[spellings.day])
            spellings.check("day", "day", args["day"], is_right=is_right, hint=hint)
            keep(db, args["id"], column, args["day"])
            return {"set": True}

        return put

    def clock(column: str) -> Any:
        def put(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
            hint = f"hours are written like {spellings.hour_of(time(9, 15))}"
            is_right = is_day(args["hour"], HOURS[spellings.hour])
            spellings.check("hour", "hour", args["hour"], is_right=is_right, hint=hint)
            keep(db, args["id"], column, args["hour"])
            return {"set": True}

        return put

    def prepare(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        keep(db, args["id"], "ready", 1)
        return {"done": True}

    def release(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        if not known(db, args["id"])["ready"]:
            said = f": {skin.prepare} has not been done" if spellings.tells("order") else ""
            raise ToolError(f"{args['id']} cannot begin{said}", kind=ToolErrorKind.INVALID_INPUT)
        keep(db, args["id"], "state", "running")
        return {"begun": True}

    def cancel(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        keep(db, args["id"], "state", "cancelled")
        return {"cancelled": True}

    def rank(db: sqlite3.Connection, args: Mapping[str, Any]) -> Any:
        keep(db, args["id"], "priority", args["rank"])
        if not spellings.tells("scale"):
            return {"ranked": True}
        urgency = args["rank"] if spellings.first_is_highest else 6 - args["rank"]
        return {"ranked": ("most urgent", "urgent", "normal", "low", "least urgent")[int(urgency) - 1]}

    number = {"type": "integer", "minimum": 1, "maximum": 5}
    return (
        DeskTool(f"find_{job}", f"Find the id of a {job} by its {skin.subject}.", {skin.subject: TEXT}, find),
        DeskTool(f"show_{job}", f"Show a {job}: its {skin.subject}, handler and state.", {"id": ID}, show),
        DeskTool(
            f"show_archived_{job}",
            f"Show a {job} from the archive: its {skin.subject} and handler.",
            {"id": ID},
            show_archived,
        ),
        DeskTool(skin.schedule, f"Plan the day of a {job}.", {"id": ID, "day": TEXT}, plan("day")),
        DeskTool(
            "set_due",
            f"Set the day until which a {job} has to be done.",
            {"id": ID, "day": TEXT},
            plan("due"),
        ),
        DeskTool(
            "set_hour", f"Set the hour at which a {job} begins.", {"id": ID, "hour": TEXT}, clock("hour")
        ),
        DeskTool(
            "set_end", f"Set the hour at which a {job} ends.", {"id": ID, "hour": TEXT}, clock("ending")
        ),
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


def _is_archived(number: str) -> bool:
    return number.split("-")[1].startswith("0")


def draft(family: str, one: Job, skin: Skin, spellings: Spellings, rng: random.Random) -> Draft:
    """The question in four wordings, and its goal."""
    job = skin.job
    ref = f"the {job} of {one.name}" if family.endswith("_by_name") else f"{job} {one.id}"
    first = f"{ref[0].upper()}{ref[1:]}"

    def kept(column: str, value: str | int) -> Goal:
        return Goal(((f"UPDATE jobs SET {column} = ? WHERE id = ?", (value, one.id)),))

    match family.rsplit("_by_", 1)[0]:
        case "handler" | "oldhandler":
            return handler_of(one, ref)
        case "cancel":
            asked = (
                f"Call off {ref}.",
                f"{first} will not take place, call it off.",
                f"Please cancel {ref}.",
                f"We do not need {ref} any more: cancel it.",
            )
            return Draft(asked, kept("state", "cancelled"))
        case "day" | "due" as kind:
            day = date(2027, 1, 1) + timedelta(days=rng.randint(13, 350))
            words = in_words(day)
            asked = (
                (
                    f"Plan {ref} for {words}.",
                    f"{first} is to be on {words}.",
                    f"Please put {ref} on {words}.",
                    f"The day of {ref} is {words}: plan it.",
                )
                if kind == "day"
                else (
                    f"{first} has to be done by {words}.",
                    f"{first} is due on {words}.",
                    f"Set {words} as the day until which {ref} has to be done.",
                    f"Enter that {ref} is due on {words}.",
                )
            )
            return Draft(asked, kept(kind, spellings.day_of(day)))
        case "hour" | "end" as kind:
            hour = time(rng.randint(1, 8) + 12, rng.choice((5, 10, 20, 35, 40, 50)))
            words = f"{hour.hour - 12}:{hour.minute:02d} pm"
            asked = (
                (
                    f"Let {ref} begin at {words}.",
                    f"{first} is to begin at {words}.",
                    f"The hour of {ref} is {words}: set it.",
                    f"Enter {words} as the hour at which {ref} begins.",
                )
                if kind == "hour"
                else (
                    f"Let {ref} end at {words}.",
                    f"{first} is to end at {words}.",
                    f"The end of {ref} is at {words}: set it.",
                    f"Enter {words} as the hour at which {ref} ends.",
                )
            )
            return Draft(asked, kept("hour" if kind == "hour" else "ending", spellings.hour_of(hour)))
        case "release":
            return released(one, ref)
        case _:
            most = rng.random() < 0.5
            word = "most urgent" if most else "least urgent"
            asked = (
                f"Rank {ref} as {word}.",
                f"{first} is {word}: rank it so.",
                f"Give {ref} the rank of the {word} ones.",
                f"Make {ref} the {word}.",
            )
            return Draft(asked, kept("priority", 1 if most == spellings.first_is_highest else 5))
