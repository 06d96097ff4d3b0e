"""Scenarios: what is simulated; traces: what became of one simulated run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard

from typing_extensions import override

from wesichain.agent import Agent
from wesichain.core import Event, JsonValue
from wesichain.core.internal import Decision, PendingCall, Spent, Value, field
from wesichain.errors import ConfigError
from wesichain.graph import Graph, GraphInterrupt
from wesichain.trace import Recording

from .faults import Fault, Faults

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph

Program: TypeAlias = "Agent[Any, Any] | Graph[Any] | DurableAgent[Any] | DurableGraph[Any]"
Person: TypeAlias = Callable[[PendingCall], Decision | None] | Callable[[GraphInterrupt], Any]


class Effect(Value):
    """One time that a tool's own code was run. `ended` is "returned", "raised" or "cut" (it never ended).

    `key` is the idempotency key of the call: a call that is run again, or delivered twice, has the same.
    `process` counts from 1: a process that died is followed by the next.
    """

    tool: str
    args: JsonValue
    key: str
    call_id: str
    attempt: int
    process: int
    at: float
    ended: str


class ToolEffects(Mapping[str, tuple[Effect, ...]]):
    """The effects of a run by the name of their tool; a tool that was never run has none."""

    def __init__(self, effects: Sequence[Effect]) -> None:
        self._by_tool: dict[str, tuple[Effect, ...]] = {}
        for effect in effects:
            self._by_tool[effect.tool] = (*self._by_tool.get(effect.tool, ()), effect)

    @override
    def __getitem__(self, tool: str) -> tuple[Effect, ...]:
        return self._by_tool.get(tool, ())

    @override
    def __contains__(self, tool: object) -> bool:
        return tool in self._by_tool

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._by_tool)

    @override
    def __len__(self) -> int:
        return len(self._by_tool)

    @override
    def __repr__(self) -> str:
        return f"ToolEffects({self._by_tool!r})"


class Trace(Value):
    """One simulated run: what an invariant looks at.

    `events` are those of all processes, in order; `effects` the executions of each tool; `spent` and
    `outcome` those of the last process (`outcome` is None where the run raised `error` instead). The outcome
    of a graph is the `Snapshot` of its thread, and `spent` is that of agents only. `world` is the value that
    the scenario's world function returned for this seed; `faults` are those that happened, `possible` all
    that could have: each kind of fault at each boundary that the run came to. `turns`: of its event loop.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("possible", "turns")

    seed: int
    run_id: str
    events: tuple[Event, ...]
    effects: ToolEffects
    spent: Spent
    outcome: Any
    world: Any
    faults: tuple[Fault, ...] = ()
    processes: int = 1
    error: BaseException | None = None
    possible: tuple[Fault, ...] = ()
    turns: int = 0

    @property
    def recording(self) -> Recording:
        """The run as a recording, which `Recorder` writes and the viewer opens."""
        return Recording(self.run_id, self.events)


Invariant: TypeAlias = Callable[[Trace], object]


class Scenario(Value):
    """A task for an agent or a graph, the people and the world around it, and what must always hold.

    `agent`: an agent or a graph, or a function that makes one. The function is called for every process, so
    that what is kept in memory dies with a process; if it has a parameter, it is given the world. `world`: a
    function, called once for each seed; its value is the `deps` of the run (the `context` of a graph) and
    `trace.world`, and outlives a crash. `people`: a function of a pending call, called when an answer
    arrives; it returns the decision, or None if nobody answers. Without it nobody does. A graph's people are
    given the `GraphInterrupt`, and return the answer; its checkpointer belongs to the world.
    `invariants`: functions of the `Trace` that raise. `faults`: in place of those that `simulate` is given.
    `conversation`: a function of the world that returns the conversation which the run belongs to.
    """

    agent: Program | Callable[[], Program] | Callable[[Any], Program]
    task: Any
    people: Person | None = field(default=None, kw_only=True)
    world: Callable[[], Any] | None = field(default=None, kw_only=True)
    invariants: Sequence[Invariant] = field(default=(), kw_only=True)
    faults: Faults | None = field(default=None, kw_only=True)
    conversation: Callable[[Any], Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given: Any = self.agent
        if not _is_program(given) and not callable(given):
            raise ConfigError(
                f"Scenario(agent={given!r}): pass an Agent or a Graph, a DurableAgent or a DurableGraph, or "
                f"a function that makes one"
            )
        for name in ("people", "world", "conversation"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ConfigError(f"Scenario({name}={value!r}): pass a function")
        check_invariants(self.invariants)

    def new_program(self, world: Any) -> Program:
        """The agent or graph for another process."""
        given: Any = self.agent
        made: Any = given
        if not _is_program(given):
            made = given(world) if signature(given).parameters else given()
        if not _is_program(made):
            raise ConfigError(
                f"the scenario's agent function returned {made!r}; it has to return an Agent, a Graph, a "
                f"DurableAgent or a DurableGraph"
            )
        return made  # type: ignore[no-any-return]  # as was looked at


def check_invariants(given: Sequence[object]) -> None:
    """Raise a `ConfigError` if one of them is no function."""
    if not all(callable(one) for one in given):
        raise ConfigError(f"invariants={given!r}: pass functions of the Trace that raise")


def is_durable(program: object) -> TypeGuard[DurableAgent[Any] | DurableGraph[Any]]:
    return _is_of_durable("DurableAgent", program) or is_durable_graph(program)


def is_durable_graph(program: object) -> TypeGuard[DurableGraph[Any]]:
    return _is_of_durable("DurableGraph", program)


def _is_of_durable(name: str, program: object) -> bool:
    # Loading the room takes a second, and who has one of its objects has loaded it.
    durable: Any = sys.modules.get("wesichain.durable")
    return durable is not None and isinstance(program, getattr(durable, name))


def _is_program(given: object) -> bool:
    return isinstance(given, Agent | Graph) or is_durable(given)
