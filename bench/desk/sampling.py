"""What the desks share: records as SQL, drafts of tasks, and how tasks are drawn from records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .values import Family, Goal, Task

ID: dict[str, Any] = {"type": "string", "format": "id"}
TEXT: dict[str, Any] = {"type": "string"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """A question in its wordings (the first half is for training, the second for the test), and its goal."""

    wordings: tuple[str, ...]
    goal: Goal


@dataclass(slots=True)
class Records:
    """SQL that makes records, a line each."""

    text: str
    count: int = field(default=0)

    def add(self, table: str, *values: str | int) -> None:
        literals = ", ".join(str(value) if isinstance(value, int) else quoted_sql(value) for value in values)
        self.text += f"INSERT INTO {table} VALUES ({literals});\n"
        self.count += 1


def quoted_sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted(text: str) -> str:
    return f'"{text}"'


def draw_tasks(
    place: str,
    families: Sequence[Family],
    things: Callable[[str], Sequence[T]],
    draft: Callable[[str, T], Draft],
    rng: random.Random,
    *,
    train: int,
    test: int,
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Tasks of every family: the first half of its things is for training, the second for the test.

    No thing is asked about in both, and no wording is used in both.
    """
    trained: list[Task] = []
    tested: list[Task] = []
    desk = place.split("/")[1]
    for family in families:
        found = list(things(family.name))
        half = len(found) // 2
        for split, pool, count, wordings in (
            ("train", found[:half], train if family.trained else 0, slice(0, 2)),
            ("test", found[half:], test, slice(2, 4)),
        ):
            chosen = [*rng.sample(pool, min(count, len(pool)))]
            chosen += [rng.choice(pool) for _ in range(count - len(chosen))]
            for number, thing in enumerate(chosen):
                made = draft(family.name, thing)
                question = made.wordings[wordings][number % 2]
                task = Task(f"{place}/{family.name}/{split}-{number}", desk, family.name, question, made.goal)
                (trained if split == "train" else tested).append(task)
    rng.shuffle(trained)
    return tuple(trained), tuple(tested)
