"""A plain interpreter of graphs, to compare the engine with: no loop, no threads, no journal, no resume.

A program is data. A node's behaviour depends on its name, its number and the state that it sees, so that the
interpreter and the engine's nodes (`tests/graph/programs.py`) share that one function and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any


def mix(old: int, new: int) -> int:
    """A reducer that depends on the order and is not invertible."""
    return (old * 3 + new) % 1009


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "log": lambda old, new: old + new,
    "total": lambda old, new: old + new,
    "tags": lambda old, new: old | new,
    "facts": lambda old, new: {**old, **new},
    "best": max,
    "mixed": mix,
    "now": lambda old, new: old + new,
}
PLAIN = ("last", "turns")
ZEROS: dict[str, Any] = {"log": [], "total": 0, "tags": set(), "facts": {}, "best": 0, "mixed": 0, "now": []}


@dataclass
class Step:
    """A node: its writes, whether it returns the whole state, whether it asks, its inner program."""

    writes: tuple[str, ...] = ()
    whole: bool = False
    asks: int = 0
    defer: bool = False
    inner: Program | None = None


@dataclass
class Program:
    """Nodes by name, in order; edges, joins, and Sends (source, target, how many).

    The node "turn" leads back to the first node until it has run `rounds` times.
    """

    steps: dict[str, Step]
    edges: list[tuple[str, str]] = field(default_factory=list)
    joins: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    sends: dict[str, tuple[str, int]] = field(default_factory=dict)
    rounds: int = 1


class Conflict(Exception):
    """Two tasks of one super-step wrote a key that only one may write."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Set:
    """A value that sets its key, and conflicts with any other write."""

    def __init__(self, value: Any) -> None:
        self.value = value


def answer_to(question: str) -> str:
    return f"<{question}>"


def visit(name: str, step: Step, state: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    """Return the writes of a node that sees this state."""
    if name == "turn":
        return {"turns": state.get("turns", 0) + 1}
    number, seen = int(name[1:]), len(state.get("log", []))
    label = f"{name}/{state['item']}" if "item" in state else name
    values = {
        "log": [f"{label}:{seen}", *answers],
        "total": number + 1,
        "tags": {label, f"t{seen % 3}"},
        "facts": {name: [seen, number], f"f{number % 2}": [seen]},
        "best": seen + number,
        "mixed": number * 7 + seen,
        "now": [label, *state.get("now", [])[:1]],
        "last": f"{label}:{seen}",
    }
    return {key: values[key] for key in step.writes}


def questions(name: str, step: Step, state: dict[str, Any]) -> list[str]:
    if name == "turn":
        return []
    label = f"{name}/{state['item']}" if "item" in state else name
    return [f"{label} {len(state.get('log', []))} {turn}?" for turn in range(step.asks)]


class Interpreter:
    """Runs a program. `visits` counts how often each node finished."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()

    def run(self, program: Program, given: dict[str, Any]) -> dict[str, Any]:
        return self._run(program, given)[0]

    def _run(self, program: Program, given: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
        """Return the final state, and all writes."""
        state = deepcopy({**ZEROS, **given})
        order = {name: index for index, name in enumerate(program.steps)}
        tasks: list[tuple[str, Any]] = [(next(iter(program.steps)), None)]
        arrived: dict[int, set[str]] = {}
        deferred: set[str] = set()
        written: list[tuple[str, Any]] = []
        while tasks:
            done = [self._task(program, name, payload, state) for name, payload in tasks]
            state = fold(state, done)
            written += [write for writes in done for write in writes]
            chosen: set[str] = set()
            sends: list[tuple[str, Any]] = []
            for name in dict.fromkeys(name for name, _ in tasks):
                chosen |= {target for source, target in program.edges if source == name}
                for index, (sources, target) in enumerate(program.joins):
                    if name in sources:
                        arrived.setdefault(index, set()).add(name)
                        if arrived[index] == set(sources):
                            del arrived[index]
                            chosen.add(target)
                if name == "turn" and state["turns"] < program.rounds:
                    chosen.add(next(iter(program.steps)))
                if name in program.sends:
                    target, count = program.sends[name]
                    sends += [(target, {"item": item}) for item in range(count)]
            deferred |= {name for name in chosen if program.steps[name].defer}
            ready = [name for name in sorted(chosen, key=order.__getitem__) if name not in deferred]
            if not ready and not sends:
                ready, deferred = sorted(deferred, key=order.__getitem__), set()
            tasks = [(name, None) for name in ready] + sends
        return state, written

    def _task(
        self, program: Program, name: str, payload: Any, state: dict[str, Any]
    ) -> list[tuple[str, Any]]:
        step = program.steps[name]
        seen = deepcopy(state if payload is None else payload)
        if step.inner is not None:
            ended, written = self._run(step.inner, seen)
            return handed(ended, written)
        answers = [answer_to(question) for question in questions(name, step, seen)]
        update = visit(name, step, seen, answers)
        self.visits[name] += 1
        return whole(seen, update) if step.whole and payload is None else list(update.items())


def whole(seen: dict[str, Any], update: dict[str, Any]) -> list[tuple[str, Any]]:
    """Convert a whole state to writes: folded alone, each gives the value in the state."""
    writes: list[tuple[str, Any]] = []
    for key, new in update.items():
        if key == "mixed":
            after = mix(seen["mixed"], new)
            if after != seen["mixed"]:
                writes.append((key, after if seen["mixed"] == 0 else Set(after)))
        elif key == "best":
            if max(seen["best"], new) != seen["best"]:
                writes.append((key, new))
        elif key == "now":
            writes.append((key, seen["now"] + new))  # each super-step resets it
        elif key == "last":
            writes += [(key, new)] if seen.get("last") != new else []
        elif key == "tags":
            writes += [(key, new - seen["tags"])] if new - seen["tags"] else []
        elif key == "facts":
            changed = {k: v for k, v in new.items() if seen["facts"].get(k) != v}
            writes += [(key, changed)] if changed else []
        else:
            writes.append((key, new))
    return writes


def handed(ended: dict[str, Any], written: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The writes of an inner program to the outer one: all of them, or for keys without a reducer the last value."""
    plain = sorted({key for key, _ in written} - FOLDS.keys())
    return [(key, value) for key, value in written if key in FOLDS] + [(key, ended[key]) for key in plain]


def fold(state: dict[str, Any], done: list[list[tuple[str, Any]]]) -> dict[str, Any]:
    """Fold the writes of all tasks, in the order of the tasks."""
    after = deepcopy(state)
    after["now"] = []
    for key in sorted({key for writes in done for key, _ in writes}):
        mine = [(index, value) for index, writes in enumerate(done) for k, value in writes if k == key]
        writers = {index for index, _ in mine}
        if len(writers) > 1 and (key in PLAIN or any(isinstance(value, Set) for _, value in mine)):
            raise Conflict(key)
        for _, value in mine:
            if isinstance(value, Set):
                after[key] = value.value
            else:
                after[key] = value if key in PLAIN else FOLDS[key](after[key], deepcopy(value))
    return after
