"""Whether a task is done: the records and the answer against its goal. An agent sees nothing of this."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from .values import Desk, Goal


@dataclass(frozen=True, slots=True)
class Checked:
    """The judgement, and in words what is not as it should be: what a user sees, never the rule behind it."""

    success: bool
    why: str = ""


def open_records(desk: Desk) -> sqlite3.Connection:
    """Fresh records, in memory, for one run."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.executescript(desk.records)
    return db


def check(desk: Desk, goal: Goal, db: sqlite3.Connection, answer: str | None) -> Checked:
    """`answer` is None where the run did not end by itself: that is no success, whatever the records say."""
    wanted = open_records(desk)
    for statement, values in goal.changes:
        wanted.execute(statement, values)
    there, should = _rows(db), _rows(wanted)
    wanted.close()
    if there != should:
        missing, extra = sorted(should - there), sorted(there - should)
        parts = [f"the records should say {row}" for row in missing[:2]]
        parts += [f"they say {row}" for row in extra[:2]]
        return Checked(False, "; ".join(parts))
    if answer is None:
        return Checked(False, "the run did not come to an end")
    if not goal.answer:
        return Checked(True)
    if not named(goal.answer, answer):
        return Checked(False, f"the answer should have been {goal.answer}")
    if any(named(wrong, answer) for wrong in goal.wrong):
        return Checked(False, f"the answer should have been {goal.answer} alone")
    return Checked(True)


def named(value: str, answer: str) -> bool:
    """Whether the answer names the value as a word: 3 is in "3.0" and "3 hours", not in "13" or "3.5"."""
    found = re.search(rf"(?<![\w.,]){re.escape(value.lower())}(?:\.0+)?(?![\w]|[.,]\d)", answer.lower())
    return found is not None


def _rows(db: sqlite3.Connection) -> set[str]:
    tables = [
        name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    return {
        f"{table} {', '.join(map(str, row))}"
        for table in tables
        for row in db.execute(f"SELECT * FROM {table}").fetchall()
    }
