"""Random programs and their graphs, in several versions."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Annotated, Any, TypedDict

from tests.graph.reference import Program, Step, mix, questions, visit
from wesichain.graph import (
    END,
    Add,
    Append,
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    Merge,
    Migration,
    PerStep,
    Send,
    SetUnion,
    interrupt,
)

KEYS = ("log", "total", "tags", "facts", "best", "mixed", "now", "last")


class State(TypedDict, total=False):
    log: Annotated[list[str], Append]
    total: Annotated[int, Add]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, list[int]], Merge]
    best: Annotated[int, max]
    mixed: Annotated[int, mix]
    now: Annotated[list[str], Append, PerStep]
    last: str
    turns: int
    item: int


class NewState(TypedDict, total=False):
    """A wider state, with one more key."""

    era: str
    log: Annotated[list[str | int], Append]
    total: Annotated[int, Add]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, list[int] | None], Merge]
    best: Annotated[int, max]
    mixed: Annotated[int, mix]
    now: Annotated[list[str], Append, PerStep]
    last: str | int
    turns: int
    item: int


# --- making them -----------------------------------------------------------------------------------


def random_program(chance: Random, *, depth: int = 2, first: int = 0) -> Program:
    """A graph of three to six nodes: edges lead forward, joins and Sends anywhere ahead, turns back."""
    size = chance.randint(3, 6) if depth == 2 else chance.randint(1, 3)
    names = [f"n{first + index}" for index in range(size)]
    keys = KEYS if depth == 2 else tuple(key for key in KEYS if key != "now")
    steps = {
        name: Step(
            writes=tuple(chance.sample(keys, chance.randint(0, 3))),
            whole=chance.random() < 0.25,
            asks=chance.choice((0, 0, 0, 0, 0, 1, 2)),
            defer=chance.random() < 0.15 and name != names[0],
        )
        for name in names
    }
    ahead = [(one, other) for index, one in enumerate(names) for other in names[index + 1 :]]
    chosen = chance.sample(ahead, min(len(ahead), chance.randint(0, 6)))
    program = Program(steps, edges=[(names[0], name) for name in names[1:2]] + chosen)
    if size > 2:
        for _ in range(chance.randint(0, 2)):
            sources = tuple(sorted(chance.sample(names[:-1], 2)))
            program.joins.append(
                (sources, chance.choice(names[names.index(max(sources, key=names.index)) + 1 :]))
            )
    if ahead and chance.random() < 0.5:
        source, target = chance.choice(ahead)
        program.sends[source] = (target, chance.randint(1, 3))
    if depth > 0:
        for name in names:
            if chance.random() < 0.2:
                inner = random_program(chance, depth=depth - 1, first=10 * (int(name[1:]) + 1) + first)
                steps[name] = Step(defer=steps[name].defer, inner=inner)
    program.joins = list(dict.fromkeys(program.joins))
    program.rounds = chance.choice((1, 1, 2, 3)) if depth == 2 else 1
    if program.rounds > 1:
        steps["turn"] = Step(defer=True)
        program.edges += [(name, "turn") for name in names]
    return program


# --- the graphs ------------------------------------------------------------------------------------


class Machine:
    """Builds the graphs of a program, and counts the calls of their nodes.

    Each deployment is the next version: it renames nodes at every depth, or widens the
    state and adds nodes and a join. `names` are the present names of the program's nodes.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.visits: Counter[str] = Counter()
        self.turns = Random(repr(program))
        self.deployed: list[Migration] = []
        self.versions: list[dict[str, str] | None] = []  # the same as data
        self.names = {name: name for name in all_names(program)}

    def deploy(self, chance: Random) -> None:
        """Switch to the next version of the program."""
        if not self.is_wide and chance.random() < 0.3:
            self.deploy_version(None)
            return
        chosen = chance.sample(sorted(self.names), chance.randint(1, len(self.names)))
        now = [self.names[name] for name in chosen]
        if chance.random() < 0.5:
            new = [f"{name}@{len(self.deployed)}" for name in chosen]
        else:  # they swap names
            new = chance.sample(now, len(now))
        self.deploy_version(dict(zip(now, new, strict=True)))

    def deploy_version(self, renamed: dict[str, str] | None) -> None:
        """Switch to a given version: one with other names, or (None) with the wider state."""
        self.versions.append(renamed)
        if renamed is None:
            self.deployed.append(Migration(lambda state: {**state, "era": "new"}))
        else:
            self.names = {name: renamed.get(now, now) for name, now in self.names.items()}
            self.deployed.append(Migration(rename=renamed))

    @property
    def is_wide(self) -> bool:
        return any(one.function is not None for one in self.deployed)

    def build(self, store: Checkpointer | None = None) -> Graph[Any]:
        return self._build(self.program, store)

    def _build(self, program: Program, store: Checkpointer | None = None) -> Graph[Any]:
        migrations = dict(enumerate(self.deployed, start=2))
        state: Any = NewState if self.is_wide else State
        builder: GraphBuilder[Any] = GraphBuilder(state, migrations=migrations)
        names = self.names
        if self.is_wide:
            builder.add_node("extra", lambda _: None).add_node("more", lambda _: None)
            builder.add_edge(["extra", names[next(iter(program.steps))]], "more")
        for name, step in program.steps.items():
            node = self._node(name, step) if step.inner is None else self._build(step.inner)
            builder.add_node(names[name], node, defer=step.defer)
        for source, target in dict.fromkeys(program.edges):
            builder.add_edge(names[source], names[target])
        for sources, target in program.joins:
            builder.add_edge([names[source] for source in sources], names[target])
        for source, (target, count) in program.sends.items():
            builder.add_conditional_edges(names[source], _sender(names[target], count), [names[target]])
        first = names[next(iter(program.steps))]
        if program.rounds > 1:
            builder.add_conditional_edges(
                names["turn"], lambda s: first if s["turns"] < program.rounds else END, [first, END]
            )
        everything = [*[names[name] for name in program.steps], *(["extra", "more"] if self.is_wide else [])]
        builder.add_conditional_edges("__start__", lambda _: [], everything)  # nothing is unreachable
        options = ExecutionOptions(cycle_detection=False, max_steps=1000)
        return builder.set_entry(first).build(store, defaults=options)

    def without(self, chance: Random, store: Checkpointer) -> Graph[Any]:
        """A program without some or all of the nodes and joins: a faulty deployment."""
        builder: GraphBuilder[Any] = GraphBuilder(State).add_node("stranger", lambda _: None)
        kept = [name for name in self.program.steps if chance.random() < 0.5]
        for name in kept:
            builder.add_node(self.names[name], lambda _: None)
        builder.add_conditional_edges("__start__", lambda _: [], [self.names[name] for name in kept])
        return builder.set_entry("stranger").build(store)

    def _node(self, name: str, step: Step) -> Any:
        async def call(state: Any) -> Any:
            seen = dict(state)
            answers = [interrupt(question) for question in questions(name, step, seen)]
            for _ in range(self.turns.randrange(6)):  # the result does not depend on their order
                await asyncio.sleep(0)
            update = visit(name, step, seen, answers)
            self.visits[name] += 1
            if not step.whole or ("item" in state and "log" not in state):
                return update
            return _applied(state, update)

        return call


def all_names(program: Program) -> list[str]:
    """The names of a program's nodes, at every depth."""
    inner = [name for step in program.steps.values() if step.inner for name in all_names(step.inner)]
    return list(dict.fromkeys([*program.steps, *inner]))


def _sender(target: str, count: int) -> Any:
    return lambda _: [Send(target, {"item": item}) for item in range(count)]


def _applied(state: Any, update: dict[str, Any]) -> Any:
    """Return the whole state, with the update applied."""
    for key, new in update.items():
        if key in ("log", "now"):
            state[key] = [*state[key], *new]
        elif key == "total":
            state[key] += new
        elif key in ("tags", "facts"):
            state[key] = state[key] | new
        elif key == "best":
            state[key] = max(state[key], new)
        elif key == "mixed":
            state[key] = mix(state[key], new)
        else:
            state[key] = new
    return state
