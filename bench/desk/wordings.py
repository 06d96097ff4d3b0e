"""Wordings: what a perfect learner would say about a task of the pilot's world, in several ways.

Which way do runs follow? Ways of search name the only tool that helps; sayings are about the end of such a
search, and name no way to it; rules say how a value is written, about the tool at which training can show it,
also to tasks of another tool that has the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wesichain.core import Advice, ToolCallingLlm
from wesichain.learning.lessons import applied
from wesichain.learning.lessons.spelling import respelled
from wesichain.learning.lessons.written import codes_in, days_in, plain_numbers_in, times_in

from . import registers
from .arms import instructions
from .play import Seat
from .skins import SKINS, Skin
from .values import Desk, Task
from .world import rules_of

WAYS = {  # the first is the product's
    "product": "For {word}: call {tool}.",
    "bare": "Call {tool}.",
    "use": "For {word}, use {tool} first.",
    "manual": "{word}: {tool}",
    "own": "For {thing}: call {tool}.",
    "own-use": "For {thing}, use {tool} first.",
    "not": "For {word}: call {tool}, not another tool.",
    "first": "For {word}, the first call is {tool}.",
    "with": "For {word}: call {tool} with {name} {id}.",
    "bare-with": "Call {tool} with {name} {id}.",
    "use-with": "For {word}, use {tool} first, with {name} {id}.",
    "headed": "For {word}: call {tool}.",
    "headed-listed": "For {word}: call {tool}.",  # and the tool is the first that is offered
}
SAYINGS = {  # the first was the product's, the last tells nothing
    "say": "When a tool has given what was asked for, say it in the answer.",
    "say-value": "The answer names the value that was asked for.",
    "say-not-done": "Answer with the value that was asked for, not only that it is done.",
    "say-short": "Answer with what the tool gave.",
    "say-result": "Say the result of the last call in the answer.",
    "untold": "",
}
RULES = {  # the first is the product's, the second what it keeps
    "applied": "{applied}",
    "kept": "{kept}",
    "as": "{tool}: write {name} as {value}.",
    "not-as": "{tool}: write {name} as {value}, not {said}.",
    "call": "Call {tool} with {name} {value}, not {said}.",
    "headed-rule": "{applied}",
}
FORMER = (
    "Advice from earlier runs of similar tasks; follow it where it fits:"  # the product's heading until then
)
HEADED = "What earlier runs of this task have shown; do it this way:"  # over those that are called headed


@dataclass(frozen=True, slots=True)
class Told:
    """A perfect learner in one wording."""

    world: str
    level: int
    saying: str

    async def __call__(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat:
        said = self._way(task, desk) if desk.name == registers.NAME else self._rule(task)
        heading = HEADED if self.saying.startswith("headed") else FORMER
        first = (self._known(task)[1],) if self.saying.endswith("listed") else ()
        advice = Advice(f"{heading}\n- {said}", ("told",), tools=first) if said else Advice()
        return Seat(llm, instructions(desk), advice)

    def _known(self, task: Task) -> tuple[str, str]:
        """The word of a search, and the tool that helps."""
        return registers.ways(SKINS[self.world], rules_of(self.world, level=self.level))[task.family]

    def _way(self, task: Task, desk: Desk) -> str:
        word, tool = self._known(task)
        if self.saying in SAYINGS:
            return SAYINGS[self.saying]
        found = re.search(rf"\b{word}\b(?: [a-z]+){{0,2}} ([A-Z]{{2}}-\d+X?)", task.question)
        if found is None:
            raise ValueError(f"{task.question!r} does not say which {word}")
        name = next(iter(next(known for known in desk.tools if known.name == tool).schema["properties"]))
        parts = {"word": word, "tool": tool, "thing": found[0], "name": name, "id": found[1]}
        return WAYS[self.saying].format(**parts)

    def _rule(self, task: Task) -> str:
        tool, name = taught(SKINS[self.world])[task.family.split("_")[0]]
        wanted = str(task.goal.changes[0][1][0])
        for said in _values(task.question, wanted):
            old, new = (float(said), float(wanted)) if said.isdigit() else (said, wanted)
            if found := respelled(old, new):
                kept = f"{tool}: {found.rule.format(name=name)}."
                value = wanted if said.isdigit() else f'"{wanted}"'
                parts = {"tool": tool, "name": name, "value": value, "said": said}
                return RULES[self.saying].format(kept=kept, applied=applied(kept, task.question), **parts)
        raise ValueError(f"{task.question!r} has no value that is written {wanted!r}")


def taught(skin: Skin) -> dict[str, tuple[str, str]]:
    """The tool and the parameter at which training shows the rule of a family of one call."""
    credit, day, hour = (skin.credit, "amount"), (skin.schedule, "day"), ("set_hour", "hour")
    return {
        "credit": credit,
        "charge": credit,
        "day": day,
        "due": day,
        "hour": hour,
        "end": hour,
        "birthday": ("set_birthday", "day"),
        "code": (f"assign_{skin.slot}", skin.slot),
        "reach": (f"set_{skin.length}", skin.length),
        "contact": ("set_contact", "contact"),
    }


def _values(question: str, wanted: str) -> Iterator[str]:
    """What in a question may be the value that is wanted in another spelling."""
    for found in (days_in(question), times_in(question)):
        yield from (said for said, _ in found)
    yield from codes_in(question)
    yield from plain_numbers_in(question)
    last, _, rest = wanted.replace(",", "").partition(" ")
    yield f"{rest} {last}"
