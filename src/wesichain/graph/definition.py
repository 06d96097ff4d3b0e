"""The definition of a graph: its nodes, edges, routers and joins, as checked by the builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias

from typing_extensions import override

from wesichain.core.internal import Value, backoff_delay, field
from wesichain.errors import GraphError, MissingNodeError

from .state.schema import Schema

START: Final = "__start__"
"""The start of a run: an edge from it leads to an entry node."""

END: Final = "__end__"
"""The end of a branch."""

Catches: TypeAlias = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]

Migrate: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any] | None]


class Migration(Value):
    """Converts threads of one version of the program to the next.

    `function` converts a state, as plain data: it changes the state in place, or returns a new one. `rename`
    maps old names of nodes to new ones, all at once, so that two nodes can swap names.
    """

    function: Migrate | None = None
    rename: Mapping[str, str] = field(default_factory=dict[str, str])


def is_transient(error: BaseException) -> bool:
    """Whether a retry can help: lost connections, timeouts, and errors with `retryable`."""
    return isinstance(error, ConnectionError | TimeoutError) or bool(getattr(error, "retryable", False))


class RetryPolicy(Value):
    """How often a node is called, and which errors are retried.

    The n-th pause is `backoff * factor ** (n - 1)` seconds, at most `max_pause`, and a random part of it, up
    to `jitter`, is added.
    """

    attempts: int = 3
    on: Catches = is_transient
    backoff: float = 0.5
    factor: float = 2.0
    max_pause: float = 30.0
    jitter: float = 0.0

    def applies(self, error: BaseException) -> bool:
        on: Any = self.on
        return isinstance(error, on) if isinstance(on, type | tuple) else bool(on(error))

    def pause(self, failures: int, *, chance: float) -> float:
        seconds = backoff_delay(failures, initial=self.backoff, factor=self.factor, maximum=self.max_pause)
        return seconds * (1 + self.jitter * chance)


class Node(Value):
    """A node with its options."""

    name: str
    call: Callable[..., Any]
    schema: Schema
    wants_context: bool = False
    is_async: bool = False
    blocking: bool | None = None
    defer: bool = False
    timeout: float | None = None
    retry: tuple[RetryPolicy, ...] = ()
    on_error: Callable[..., Any] | None = None
    goto: tuple[str, ...] = ()
    inner: Definition | None = None  # of a graph that is a node
    is_agent: bool = False


class Router(Value):
    """A choice made after a node. `targets` maps its return values to nodes; None: it returns their names."""

    call: Callable[..., Any]
    targets: Mapping[Any, str] | None = None
    wants_context: bool = False


class Join(Value):
    """A node that runs once all of its sources have run. Joins are identified by their fields."""

    sources: frozenset[str]
    target: str

    @override
    def __str__(self) -> str:
        return f"{' + '.join(map(repr, sorted(self.sources)))} -> {self.target!r}"


def task_id(node: str) -> str:
    """Return the id of a node's task: its name with "#" doubled, since the ids of `Send`s end in "#0"."""
    return node.replace("#", "##")


class Definition:
    """A checked graph, which no longer changes.

    `order`: the positions of the nodes, in the order in which they were added and writes are folded.
    `joins_of`: the joins of which each node is a source. `may_loop`: a run can return to a node; only then
    cycles are detected. `task_ids`: the ids of the nodes' tasks; those of a `Send` are `node#0`, `node#1` and
    so on. `migrations` convert states of older versions.
    """

    def __init__(
        self,
        schema: Schema,
        nodes: Mapping[str, Node],
        *,
        edges: Mapping[str, tuple[str, ...]],
        routers: Mapping[str, tuple[Router, ...]],
        joins: tuple[Join, ...] = (),
        output: Schema | None = None,
        migrations: Mapping[int, Migration] | None = None,
        context_type: Any = None,
    ) -> None:
        self.schema = schema
        self.nodes = nodes
        self.edges = edges
        self.routers = routers
        self.joins = joins
        self.output = output
        self.order = {name: index for index, name in enumerate(nodes)}
        self.migrations = migrations or {}
        self.context_type = context_type
        self.task_ids = {name: task_id(name) for name in nodes}
        self.may_defer = frozenset(name for name, node in nodes.items() if node.defer)
        self.joins_of: dict[str, tuple[Join, ...]] = {}
        for join in joins:
            for source in join.sources:
                self.joins_of[source] = (*self.joins_of.get(source, ()), join)
        self.may_loop = any(node.on_error is not None for node in nodes.values()) or _has_cycle(
            {name: [to for to in self.leads_to(name) if to != END] for name in nodes}
        )

    @property
    def version(self) -> int:
        """The version of the program: the highest number of its migrations, 1 without any."""
        return max(self.migrations, default=1)

    def renamed(self, name: str, version: int) -> str:
        """Return the name in this version of a node of an older version."""
        for number in sorted(self.migrations):
            if number > version:
                name = self.migrations[number].rename.get(name, name)
        return name

    def check_interrupts(self, names: Iterable[str]) -> None:
        """Raise if an interrupt names an unknown node, at which a run would never stop."""
        for name in names:
            if name not in self.nodes:
                known = ", ".join(map(repr, self.nodes))
                raise MissingNodeError(f"an interrupt: there is no node {name!r}; the nodes: {known}")

    def check_as_node(self, name: str) -> None:
        """Raise if `as_node` is not the name of a node."""
        if name not in (START, END, *self.nodes):
            known = ", ".join(map(repr, self.nodes))
            raise GraphError(f"as_node: there is no node {name!r}; the nodes: {known}", node=name)

    def leads_to(self, name: str, *, without: Join | None = None) -> Iterable[str]:
        """Yield every node that may follow this one: all nodes after a router without targets."""
        yield from self.edges.get(name, ())
        for join in self.joins_of.get(name, ()):
            if join != without:
                yield join.target
        for router in self.routers.get(name, ()):
            yield from self.nodes if router.targets is None else router.targets.values()
        if name in self.nodes:
            yield from self.nodes[name].goto

    def reachable(self, begin: Iterable[str], *, without: Join | None = None) -> set[str]:
        """Return these nodes and all that may run after them, ignoring one join if it is given."""
        reached = set(begin)
        ahead = [*reached]
        while ahead:
            for target in self.leads_to(ahead.pop(), without=without):
                if target not in reached:
                    reached.add(target)
                    ahead.append(target)
        return reached


def _has_cycle(graph: Mapping[str, Iterable[str]]) -> bool:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


# --- drawing ----------------------------------------------------------------------------------------


def mermaid(definition: Definition) -> str:
    """Draw a flowchart with nodes as boxes, edges as arrows, and choices as dotted arrows."""
    ids = {START: "start", END: "end_", **{name: f"n{index}" for index, name in enumerate(definition.nodes)}}
    lines = ["flowchart TD", "    start([start])"]
    lines += [f'    {ids[name]}["{_text(name)}"]' for name in definition.nodes]
    for source in (START, *definition.nodes):
        lines += _arrows(definition, source, ids)
    if any(line.endswith(" end_") for line in lines):
        lines.insert(2, "    end_([end])")
    return "\n".join(lines) + "\n"


def _arrows(definition: Definition, source: str, ids: Mapping[str, str]) -> list[str]:
    """Draw the arrows from a node."""
    here, goto = f"    {ids[source]}", definition.nodes[source].goto if source in definition.nodes else ()
    solid = [*definition.edges.get(source, ())]
    solid += [join.target for join in definition.joins_of.get(source, ())]
    lines = [f"{here} --> {ids[target]}" for target in solid]
    for router in definition.routers.get(source, ()):
        for label, target in (router.targets or {name: name for name in definition.nodes}).items():
            label_text = "" if label == target else f'|"{_text(str(label))}"|'
            lines.append(f"{here} -.->{label_text} {ids[target]}")
    lines += [f"{here} -.-> {ids[target]}" for target in goto]
    return lines or [f"{here} --> end_"]


def _text(text: str) -> str:
    """Escape text for Mermaid: special characters become entities."""
    return "".join(char if char.isalnum() or char in " _-.:,/" else f"#{ord(char)};" for char in text)
