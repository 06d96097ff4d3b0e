"""A world as data: tools that check their arguments, tasks made from slots, and a record of what was done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import ToolError
from wesichain.learning import Feedback
from wesichain.tools import JsonTool, ToolContext

WORLDS = Path(__file__).with_name("worlds")


@dataclass(frozen=True, slots=True)
class WorldTask:
    """A task, and the one call that its record should hold."""

    id: str
    text: str
    tool: str
    args: Mapping[str, Any]


class World:
    """One world. What each run has done is kept by the run's id."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.name: str = data["name"]
        self.family: str = data["family"]
        self.part: str = data["part"]  # prompt, judged or search: what its runs count for
        self.source: str = data["source"]
        self.sentences: tuple[str, ...] = tuple(rule["sentence"] for rule in data["rules"])
        self.worded: tuple[str, ...] = tuple(rule["worded"] for rule in data["rules"] if rule.get("worded"))
        self._rules: list[Mapping[str, str]] = data["rules"]
        self._data = data
        self._records: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}

    @classmethod
    def read(cls, path: Path) -> World:
        return cls(parse_json(path.read_text(encoding="utf-8")))

    def tools(self, descriptions: Mapping[str, str] | None = None) -> list[JsonTool]:
        """Return the tools, with other descriptions where they are given by name."""
        changed = descriptions or {}
        return [
            self._tool({**about, "description": changed.get(about["name"], about["description"])})
            for about in self._data["tools"]
        ]

    def tasks(
        self, *, training: int, held_out: int, seed: int = 0
    ) -> tuple[list[WorldTask], list[WorldTask]]:
        """Return tasks to learn from and others to test on; no text is in both."""
        every = [[*self._filled(number, about)] for number, about in enumerate(self._data["tasks"])]
        for group in every:
            Random(f"{self.name}/{seed}").shuffle(group)
        rows = zip(*(_cycled(group, training + held_out) for group in every), strict=True)
        mixed = [task for row in rows for task in row]
        unique = list({task.text: task for task in mixed}.values())
        return unique[:training], unique[training : training + held_out]

    def is_solved(self, run_id: str, task: WorldTask) -> bool:
        """Whether the record holds the one call that it should, and no other that changes something."""
        return self._records.get(run_id, []) == [(task.tool, dict(task.args))]

    def sentence_for(self, task: WorldTask, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """The sentence of a person who corrects a run: the rule about the first argument that is wrong.

        The person reads the last call of the tool that was made, taken or refused.
        """
        nothing: Mapping[str, Any] = {}
        done = next((args for tool, args in reversed(calls) if tool == task.tool), nothing)
        wrong = [name for name, value in task.args.items() if done.get(name) != value]
        rules = [rule["sentence"] for rule in self._rules if rule["tool"] == task.tool]
        named = [sentence for name in wrong for sentence in rules if re.search(rf"\b{name}\b", sentence)]
        return (named or rules or self.sentences)[0]

    def difference(self, run_id: str, task: WorldTask) -> str:
        """What a comparison of databases says: what the record should hold, and what it holds."""
        found = self._records.get(run_id, [])
        held = "; ".join(f"{tool} {dump_json(args)}" for tool, args in found) or "nothing"
        return f"the record should hold {task.tool} {dump_json(dict(task.args))}; it holds {held}"

    def feedback(
        self, kind: str, run_id: str, task: WorldTask, calls: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> Feedback:
        """The feedback of a kind: a person's sentence (a), the database (b), or good and bad alone (c).

        `a` and `b-owner` are an owner's words, `a-user` and `b` those of nobody known.
        """
        good = self.is_solved(run_id, task)
        if good or kind == "c":
            return Feedback(label=good)
        why = self.sentence_for(task, calls) if kind.startswith("a") else self.difference(run_id, task)
        return Feedback(label=False, why=why, by="owner" if kind in ("a", "b-owner") else None)

    def _tool(self, about: Mapping[str, Any]) -> JsonTool:
        schema = {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in about["parameters"].items()},
            "required": [*about["parameters"]],
            "additionalProperties": False,
        }

        def invoke(args: Any, ctx: ToolContext[Any]) -> str:
            for name, form in about["accepts"].items():
                if not re.fullmatch(form, str(args[name])):
                    raise ToolError(f"{about.get('refusal', f'invalid {name}:')} {args[name]!r}")
            if "gives" not in about:
                self._records.setdefault(ctx.run_id, []).append((about["name"], dict(args)))
            return str(about.get("gives", "done"))

        return JsonTool(about["name"], about["description"], schema, invoke)

    def _filled(self, number: int, about: Mapping[str, Any]) -> Iterator[WorldTask]:
        names = [name for name in self._data["slots"] if f"{{{name}}}" in about["text"]]
        for values in product(*(self._data["slots"][name] for name in names)):
            chosen = dict(zip(names, values, strict=True))
            text = about["text"]
            for name, (said, _) in chosen.items():
                text = text.replace(f"{{{name}}}", said)
            args = {key: _value(form, chosen) for key, form in about["expect"]["args"].items()}
            yield WorldTask(f"{self.name}/{number}/{text}", text, about["expect"]["tool"], args)


def read_worlds() -> list[World]:
    return [World.read(path) for path in sorted(WORLDS.glob("*.json"))]


def _value(form: str, chosen: Mapping[str, Sequence[Any]]) -> Any:
    name, _, part = form.strip("{}").partition(".")
    wanted = chosen[name][1]
    return wanted[int(part)] if part else wanted


def _cycled(group: Sequence[WorldTask], count: int) -> list[WorldTask]:
    return [group[at % len(group)] for at in range(count)]
