"""Scenarios, which are simulated, and traces, the results of simulated runs."""

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

    Program: TypeAlias = Agent[Any, Any] | Graph[Any] | DurableAgent[Any] | DurableGraph[Any]
else:  # for `help` and `inspect.signature`, which resolve annotations: durable runs are an extra
    Program = Any
Person: TypeAlias = Callable[[PendingCall], Decision | None] | Callable[[GraphInterrupt], Any]


class Effect(Value):
    """One execution of a tool's code. `ended` is "returned", "raised" or "cut" (it did not end).

    `key` is the idempotency key of the call, which stays the same if the call is run again or delivered
    twice. `process` is the number of the process, from 1; each crash starts another.
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
    """The effects of a run by the name of the tool; () for a tool that was never run."""

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
    """The result of one simulated run, which invariants check.

    `events` are the events of all processes, in order, and `effects` the executions of each tool. `spent` and
    `outcome` are those of the last process (`outcome` is None if the run raised `error`). The outcome of a
    graph is the `Snapshot` of its thread, and its `spent` counts agents only. `world` is the value of the
    scenario's world function for this seed. `faults` are the faults that happened, and `possible` all that
    could have: each kind of fault at each boundary that the run reached. `turns` counts the turns of its
    event loop.
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
        """The run as a recording, for `Recorder` and the viewer."""
        return Recording(self.run_id, self.events)


Invariant: TypeAlias = Callable[[Trace], object]


class Scenario(Value):
    """A task for an agent or a graph, with its people, its world and its invariants.

    `agent` is an agent or a graph, or a function that makes one. The function is called for each process, so
    that a crash loses the state in memory; its optional parameter is the world. `world` is a function that is
    called once per seed; its value is the `deps` of the run (the `context` of a graph) and `trace.world`, and
    survives crashes. `people` is a function of a pending call, called when an answer arrives; it returns the
    decision, or None if nobody answers (the default). For a graph it takes the `GraphInterrupt` and returns
    the answer; the graph's checkpointer belongs to the world. `invariants` are functions of the `Trace` that
    raise an error if they do not hold. `faults` are the default faults of `simulate`. `conversation` is a
    function of the world that returns the conversation of the run.
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
        """Make the agent or graph for a process."""
        given: Any = self.agent
        made: Any = given
        if not _is_program(given):
            made = given(world) if signature(given).parameters else given()
        if not _is_program(made):
            raise ConfigError(
                f"the scenario's agent function returned {made!r}; it has to return an Agent, a Graph, a "
                f"DurableAgent or a DurableGraph"
            )
        return made  # type: ignore[no-any-return]  # checked above


def check_invariants(given: Sequence[object]) -> None:
    """Raise a `ConfigError` if one of them is no function."""
    if not all(callable(one) for one in given):
        raise ConfigError(f"invariants={given!r}: pass functions of the Trace that raise")


def is_durable(program: object) -> TypeGuard[DurableAgent[Any] | DurableGraph[Any]]:
    return _is_of_durable("DurableAgent", program) or is_durable_graph(program)


def is_durable_graph(program: object) -> TypeGuard[DurableGraph[Any]]:
    return _is_of_durable("DurableGraph", program)


def _is_of_durable(name: str, program: object) -> bool:
    # The import takes a second, and whoever has such an object has done it.
    durable: Any = sys.modules.get("wesichain.durable")
    return durable is not None and isinstance(program, getattr(durable, name))


def _is_program(given: object) -> bool:
    return isinstance(given, Agent | Graph) or is_durable(given)
