"""A graph as data: its nodes and where each leads. Made by the builder, read by everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias

from typing_extensions import override

from wesichain.core.internal import Value, backoff_delay, field
from wesichain.errors import GraphError, MissingNodeError

from .state.schema import Schema

START: Final = "__start__"
"""Where a run begins: an edge from it names an entry."""

END: Final = "__end__"
"""Where a branch ends: an edge to it says so."""

Catches: TypeAlias = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]

Migrate: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any] | None]


class Migration(Value):
    """How a thread of one version of the program becomes one of the next.

    `function` makes a state of the old version, as plain data, one of the new: changed in place, or returned.
    `rename` maps old names of nodes to new ones, all at once, so that two nodes can change places.
    """

    function: Migrate | None = None
    rename: Mapping[str, str] = field(default_factory=dict[str, str])


def is_transient(error: BaseException) -> bool:
    """Whether trying again can help: lost connections, timeouts, and what calls itself `retryable`."""
    return isinstance(error, ConnectionError | TimeoutError) or bool(getattr(error, "retryable", False))


class RetryPolicy(Value):
    """How often a node is tried again, and after which errors.

    The n-th pause is `backoff * factor ** (n - 1)` seconds, at most `max_pause`, and by chance
    up to `jitter` of it more.
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
    """A node, and all that was said when it was added."""

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
    """A choice made after a node. `targets` maps what it returns to nodes; None: it returns their names."""

    call: Callable[..., Any]
    targets: Mapping[Any, str] | None = None
    wants_context: bool = False


class Join(Value):
    """A node that runs once all of its sources have. It is known by what it says, not by its place."""

    sources: frozenset[str]
    target: str

    @override
    def __str__(self) -> str:
        return f"{' + '.join(map(repr, sorted(self.sources)))} -> {self.target!r}"


def task_id(node: str) -> str:
    """The id of the task of a node; a "#" in a name is doubled, since the tasks of `Send`s end in one."""
    return node.replace("#", "##")


class Definition:
    """A whole graph, checked, and not changed any more.

    `order` is that in which nodes were added, and writes are folded. `joins_of` are the joins that each
    node is a source of. `may_loop`: a run can come back to a node; only then are cycles looked for.
    `task_ids`: what the task of a node is called; a "#" in a name is doubled, since the tasks of a `Send`
    have the ids `node#0`, `node#1` and so on. `migrations` bring states of older versions up to this one.
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
        """Of the state's form: the highest number of its migrations, 1 without any."""
        return max(self.migrations, default=1)

    def renamed(self, name: str, version: int) -> str:
        """The name that a node of an older version has in this one."""
        for number in sorted(self.migrations):
            if number > version:
                name = self.migrations[number].rename.get(name, name)
        return name

    def check_interrupts(self, names: Iterable[str]) -> None:
        """Refuse to stop a run at nodes that there are not: it would never stop."""
        for name in names:
            if name not in self.nodes:
                known = ", ".join(map(repr, self.nodes))
                raise MissingNodeError(f"an interrupt: there is no node {name!r}; the nodes: {known}")

    def check_as_node(self, name: str) -> None:
        """Refuse to write as a node that there is not."""
        if name not in (START, END, *self.nodes):
            known = ", ".join(map(repr, self.nodes))
            raise GraphError(f"as_node: there is no node {name!r}; the nodes: {known}", node=name)

    def leads_to(self, name: str, *, without: Join | None = None) -> Iterable[str]:
        """Every node that may follow this one. A router that says nothing of its targets may go anywhere."""
        yield from self.edges.get(name, ())
        for join in self.joins_of.get(name, ()):
            if join != without:
                yield join.target
        for router in self.routers.get(name, ()):
            yield from self.nodes if router.targets is None else router.targets.values()
        if name in self.nodes:
            yield from self.nodes[name].goto

    def reachable(self, begin: Iterable[str], *, without: Join | None = None) -> set[str]:
        """These nodes, and all that may run after them; without the help of a join, if one is named."""
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


# --- its drawing ------------------------------------------------------------------------------------


def mermaid(definition: Definition) -> str:
    """Nodes as boxes, edges as arrows, choices as dotted ones."""
    ids = {START: "start", END: "end_", **{name: f"n{index}" for index, name in enumerate(definition.nodes)}}
    lines = ["flowchart TD", "    start([start])"]
    lines += [f'    {ids[name]}["{_text(name)}"]' for name in definition.nodes]
    for source in (START, *definition.nodes):
        lines += _arrows(definition, source, ids)
    if any(line.endswith(" end_") for line in lines):
        lines.insert(2, "    end_([end])")
    return "\n".join(lines) + "\n"


def _arrows(definition: Definition, source: str, ids: Mapping[str, str]) -> list[str]:
    """The arrows that lead away from a node."""
    here, goto = f"    {ids[source]}", definition.nodes[source].goto if source in definition.nodes else ()
    solid = [*definition.edges.get(source, ())]
    solid += [join.target for join in definition.joins_of.get(source, ())]
    lines = [f"{here} --> {ids[target]}" for target in solid]
    for router in definition.routers.get(source, ()):
        for label, target in (router.targets or {name: name for name in definition.nodes}).items():
            said = "" if label == target else f'|"{_text(str(label))}"|'
            lines.append(f"{here} -.->{said} {ids[target]}")
    lines += [f"{here} -.-> {ids[target]}" for target in goto]
    return lines or [f"{here} --> end_"]


def _text(text: str) -> str:
    """Text that Mermaid shows as it is: entities in place of what it would read as its own."""
    return "".join(char if char.isalnum() or char in " _-.:,/" else f"#{ord(char)};" for char in text)
