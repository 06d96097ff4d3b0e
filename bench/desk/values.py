"""The values of the experiment: tools, tasks, desks and worlds."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Style = Literal["telling", "opaque", "silent"]  # how a tool answers a call that breaks its rule
Split = Literal["train", "test"]
Act = Callable[[sqlite3.Connection, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class DeskTool:
    """A tool of a desk: its parameters as JSON schemas by name, and what it does to the records."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    act: Act

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": list(self.parameters),
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """When a task is done: these changes and no others, an answer that names this and nothing of `wrong`."""

    changes: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    answer: str = ""
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One question to the desk."""

    id: str
    desk: str
    family: str
    question: str
    goal: Goal


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task. `rule` names the rule that it needs ("" for none); `trained`: is it in training."""

    name: str
    rule: str
    calls: int
    trained: bool
    search: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """A desk with tools of its own: what an agent is given, and what it is not (`manual`)."""

    name: str
    about: str
    tools: tuple[DeskTool, ...]
    families: tuple[Family, ...]
    manual: Mapping[str, str]  # rule -> the sentence that tells it
    records: str  # the SQL that makes the desk's records
    train: tuple[Task, ...]
    test: tuple[Task, ...]

    def family(self, name: str) -> Family:
        return next(family for family in self.families if family.name == name)


@dataclass(frozen=True, slots=True)
class World:
    """Desks of one subject, and everything about them in one hash."""

    name: str
    seed: int
    level: int
    desks: tuple[Desk, ...]

    @property
    def hash(self) -> str:
        """Of all that a run can meet: tools, records, rules, tasks and goals."""
        told = [self.name, self.seed, self.level]
        told += [
            [
                [desk.name, desk.about, desk.records, dict(desk.manual)],
                [[tool.name, tool.description, tool.schema] for tool in desk.tools],
                [[kind.name, kind.rule, kind.calls, kind.trained, kind.search] for kind in desk.families],
                [
                    [task.id, task.question, task.goal.changes, task.goal.answer, task.goal.wrong]
                    for task in (*desk.train, *desk.test)
                ],
            ]
            for desk in self.desks
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
