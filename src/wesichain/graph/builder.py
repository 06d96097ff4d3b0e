"""The builder: collects the nodes and edges of a graph, and checks them before it can run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypeGuard,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)
from warnings import warn

from wesichain._elsewhere import GRAPH, Translated, names_ours
from wesichain.core.internal import Clock, positions_of, replace
from wesichain.errors import GraphDefinitionError, InvalidEdgeError, MissingNodeError
from wesichain.store import Store

from .checkpoints.checkpointer import Checkpointer
from .checkpoints.thread_journal import OuterWrites
from .context import DEFAULTS, ExecutionOptions, GraphContext, Sinks
from .definition import END, START, Definition, Join, Migrate, Migration, Node, RetryPolicy, Router
from .graph import Graph
from .nodes.node_run import OuterUpdate
from .questions import CURRENT
from .react.node import AgentNode, is_agent
from .state.kinds import is_items, is_mapping
from .state.schema import HIDDEN, Key, Schema, copies, schema_of

StateT = TypeVar("StateT")


class GraphBuilder(Translated, Generic[StateT]):
    """Builds a graph. Methods return the builder; `build` checks the definition and returns the graph."""

    @overload
    def __init__(
        self: GraphBuilder[dict[str, Any]],
        *,
        output_type: Any = None,
        context_type: Any = None,
        migrations: Mapping[int, Migration | Migrate] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        state_type: type[StateT],
        *,
        output_type: Any = None,
        context_type: Any = None,
        migrations: Mapping[int, Migration | Migrate] | None = None,
    ) -> None: ...
    @names_ours(GRAPH)
    def __init__(
        self,
        state_type: Any = dict,
        *,
        output_type: Any = None,
        context_type: Any = None,
        migrations: Mapping[int, Migration | Migrate] | None = None,
    ) -> None:
        """`output_type`: a type with some of the state's keys; `invoke` then returns only those.

        `context_type`: the type of `context` in `graph.invoke(state, context=...)`.
        `migrations`: `{2: function}` converts a stored state of version 1, as a dict of plain data, to
        version 2, and `{2: Migration(rename={"old": "new"})}` renames nodes. The highest number is the
        program's version.
        """
        self._schema = schema_of(state_type)
        self._context_type = context_type
        self._migrations = _checked_migrations(migrations or {})
        self._output = None if output_type is None else self._part(output_type, "output_type")
        self._nodes: dict[str, Node] = {}
        self._see_all: set[str] = set()
        self._edges: list[Join] = []  # includes edges with one source
        self._routers: list[tuple[str, Router]] = []
        self._entry: str | None = None

    @names_ours(GRAPH)
    def add_node(
        self,
        name: str,
        node: Any,
        *,
        input_type: Any = None,
        timeout: float | None = None,
        retry: RetryPolicy | Sequence[RetryPolicy] = (),
        on_error: Callable[..., Any] | None = None,
        blocking: bool | None = None,
        defer: bool = False,
        keep_state: bool = False,
        goto: Sequence[str] = (),
        task: Callable[..., Any] | None = None,
    ) -> Self:
        """Add a node: a callable `(state)` or `(state, ctx)`, an object with `invoke`, a graph, or an agent.

        A sync node runs in a thread if it could block others: in async code, or beside other nodes. Use
        `blocking=False` for one that returns quickly: it is called directly. With `blocking=True` it always
        runs in a thread. For an async node, `blocking=False` says that it stops when it is cancelled: alone
        and without a time limit, it is then awaited in the run's own asyncio task.

        `defer` runs the node when nothing else is left to run. `on_error(state, error)` is called after its
        last retry has failed, and returns its update. `goto`: nodes that it may choose with
        `StateUpdate(goto=...)`. `keep_state` keeps the state of a graph used as a node between its visits.
        `input_type`: a type with the keys that it receives. `task(state)` makes the task of an agent.
        """
        if not isinstance(cast("Any", name), str) or not name or name in (START, END):
            raise GraphDefinitionError(
                f"{name!r} cannot be a node's name; use a text that is not START or END"
            )
        if name in self._nodes:
            raise GraphDefinitionError(f"node {name!r} is added twice; give one of them another name")
        seen = self._schema if input_type is None else self._part(input_type, f"node {name!r}")
        if input_type is None and not _is_graph(node):
            self._see_all.add(name)
        inner: Definition | None = None
        if _is_graph(node):
            inner = node.definition
            if node.checkpointer is not None:
                warn(
                    f"node {name!r}: the checkpointer of its graph is not used; the outer graph has one",
                    stacklevel=3,  # past the check of names
                )
            subgraph = Subgraph(node, name, self._schema, keep_state=keep_state)
            self._schema, seen, node = subgraph.outer, subgraph.seen, subgraph
        elif is_agent(node):
            node = AgentNode(node, name, self._schema, task)
            task = None
        if task is not None:
            raise GraphDefinitionError(f"node {name!r}: task is for an agent used as a node")
        if keep_state and not isinstance(node, Subgraph):
            raise GraphDefinitionError(f"node {name!r}: keep_state is for a graph used as a node")
        call = _callable(node, f"node {name!r}")
        self._nodes[name] = Node(
            name,
            call,
            seen,
            wants_context=_wants_context(call, f"node {name!r}"),
            is_async=_is_async(call),
            blocking=blocking,
            defer=defer,
            timeout=timeout,
            retry=(retry,) if isinstance(retry, RetryPolicy) else tuple(retry),
            on_error=on_error,
            goto=(goto,) if isinstance(goto, str) else tuple(goto),
            inner=inner,
            is_agent=call.__module__.startswith(f"{__package__}.react."),
        )
        return self

    def add_edge(self, source: str | Sequence[str], target: str) -> Self:
        """Run the target after the source. With several sources, it runs once, after all of them."""
        sources: Any = (source,) if isinstance(source, str) else source
        if not is_items(sources) or not all(isinstance(name, str) for name in (*sources, target)):
            raise InvalidEdgeError(
                f"add_edge({source!r}, {target!r}): an edge leads from a node's name, or from several, to "
                f"one name; for several targets add an edge for each"
            )
        self._edges.append(Join(frozenset(sources), target))
        return self

    def add_conditional_edges(
        self,
        source: str,
        router: Callable[..., Any],
        targets: Mapping[Any, str] | Sequence[str] | None = None,
    ) -> Self:
        """Let `router(state)` choose what runs after the source: a name, several names, `Send`s, or END.

        `targets` are the nodes that it may return, or a mapping from its return values to nodes. By default
        they are read from a `Literal` return annotation; without one, it may return any node.
        """
        table = _table(targets) if targets is not None else _annotated(router)
        where = f"the router after {source!r}"
        self._routers.append((source, Router(_callable(router, where), table, _wants_context(router, where))))
        return self

    def set_entry(self, name: str) -> Self:
        """Start runs at this node."""
        if self._entry is not None and self._entry != name:
            raise GraphDefinitionError(
                f"the entry is {self._entry!r} already; for several use add_edge(START, {name!r})"
            )
        self._entry = name
        return self

    @names_ours(GRAPH)
    def build(
        self,
        checkpointer: Checkpointer | None = None,
        *,
        defaults: ExecutionOptions | None = None,
        events: Sinks = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
        store: Store | None = None,
    ) -> Graph[StateT]:
        """Check the definition, and return the graph. `defaults` are the options that a run does not set.

        Nodes read the `store` as `ctx.store`; a graph used as a node has the store of the outer graph, unless
        it was built with its own.
        """
        entry = () if self._entry is None else (Join(frozenset((START,)), self._entry),)
        edges = (*entry, *self._edges)
        for edge in edges:
            self._check_edge(edge)
        for source, router in self._routers:
            self._check_router(source, router)
        for node in self._nodes.values():
            for target in node.goto:
                self._check_target(target, f"node {node.name!r} (goto)")
        definition = self._definition(edges)
        _check_reachable(definition)
        options = DEFAULTS if defaults is None else defaults.over(DEFAULTS)
        definition.check_interrupts((*options.interrupt_before, *options.interrupt_after))
        if checkpointer is not None and not _is_store(checkpointer):
            raise GraphDefinitionError(
                f"{checkpointer!r} is not a checkpointer; use MemoryCheckpointer() or "
                f"SqliteCheckpointer(path)"
            )
        if store is not None and (isinstance(store, type) or not isinstance(cast("object", store), Store)):
            raise GraphDefinitionError(f"{store!r} is not a store; use MemoryStore() or SqliteStore(path)")
        return Graph(
            definition,
            checkpointer=checkpointer,
            defaults=options,
            events=events,
            clock=clock,
            new_id=new_id,
            store=store,
        )

    def _part(self, type_: Any, where: str) -> Schema:
        """Return the schema of a type with some of the state's keys."""
        part = schema_of(type_)
        unknown = [name for name in part.keys if self._schema.key(name) is None]
        if unknown:
            raise GraphDefinitionError(
                f"{where}: {type_.__name__} has the key {unknown[0]!r}, which the state "
                f"{self._schema.type.__name__} does not have"
            )
        return part

    # --- checks ------------------------------------------------------------------------------------

    def _definition(self, edges: Iterable[Join]) -> Definition:
        single: dict[str, tuple[str, ...]] = {}
        routers: dict[str, tuple[Router, ...]] = {}
        joins: list[Join] = []
        for edge in dict.fromkeys(edges):
            if len(edge.sources) > 1:
                joins.append(edge)
            for source in edge.sources if len(edge.sources) == 1 else ():
                single[source] = (*single.get(source, ()), edge.target)
        for source, router in self._routers:
            routers[source] = (*routers.get(source, ()), router)
        nodes = {
            name: replace(node, schema=self._schema) if name in self._see_all else node
            for name, node in self._nodes.items()
        }
        return Definition(
            self._schema,
            nodes,
            edges=single,
            routers=routers,
            joins=tuple(joins),
            output=self._output,
            migrations=self._migrations,
            context_type=self._context_type,
        )

    def _check_edge(self, edge: Join) -> None:
        if END in edge.sources:
            raise InvalidEdgeError(f"edge {edge}: nothing comes after END")
        if edge.target == START:
            raise InvalidEdgeError(
                f"edge {edge}: no edge leads back to START; use the name of the first node"
            )
        if not edge.sources or (len(edge.sources) > 1 and (START in edge.sources or edge.target == END)):
            raise InvalidEdgeError(
                f"edge {edge}: a join has several nodes as its sources and a node as its target"
            )
        for name in sorted(edge.sources):
            if name != START:
                self._check_target(name, f"edge {edge}")
        self._check_target(edge.target, f"edge {edge}")
        if edge.sources == frozenset((START,)) and edge.target == END:
            raise InvalidEdgeError("edge START -> END: a graph needs a node between them")

    def _check_router(self, source: str, router: Router) -> None:
        if source == END:
            raise InvalidEdgeError("nothing comes after END, so that it cannot have conditional edges")
        if source != START:
            self._check_target(source, "conditional edges")
        for target in (router.targets or {}).values():
            self._check_target(target, f"the router after {source!r}")

    def _check_target(self, name: Any, where: str) -> None:
        if name not in self._nodes and name != END:
            known = ", ".join(map(repr, self._nodes)) or "none"
            raise MissingNodeError(f"{where}: there is no node {name!r}; the nodes: {known}")


def _check_reachable(definition: Definition) -> None:
    if not definition.nodes:
        raise GraphDefinitionError("the graph has no nodes; add one with add_node(name, callable)")
    if not list(definition.leads_to(START)):
        raise GraphDefinitionError("the graph has no entry; name the first node with set_entry(name)")
    reached = definition.reachable((START,))
    unreached = [name for name in definition.nodes if name not in reached]
    if unreached:
        raise GraphDefinitionError(
            f"nothing leads to {', '.join(map(repr, unreached))}; add an edge, add it to the targets of a "
            f"router or to a node's goto, or remove it"
        )


# --- arguments -------------------------------------------------------------------------------------


def _checked_migrations(migrations: Mapping[int, Migration | Migrate]) -> Mapping[int, Migration]:
    checked: dict[int, Migration] = {}
    for number, given in migrations.items():
        known: Any = number
        one = given if isinstance(given, Migration) else Migration(given)
        is_number = type(known) is int and known >= 2
        is_function = one is given if one.function is None else callable(one.function)
        if not is_number or not is_function:
            raise GraphDefinitionError(
                f"migrations={{{number!r}: {given!r}}}: a migration has the number of the version that it "
                f"leads to, 2 or more, and is a function of a state, or a Migration"
            )
        if len(set(one.rename.values())) < len(one.rename):
            raise GraphDefinitionError(f"migrations={{{number!r}: {given!r}}}: two nodes get the same name")
        checked[number] = one
    return checked


def _is_store(value: object) -> bool:
    """Whether it has the methods of a checkpointer."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("append", "read")
    )


def _is_graph(node: object) -> TypeGuard[Graph[Any]]:
    return isinstance(node, Graph)


def _callable(node: Any, where: str) -> Callable[..., Any]:
    invoke: Callable[..., Any] | None = getattr(node, "invoke", None)
    if callable(invoke):
        return invoke
    if callable(node) and not isinstance(node, type):
        return cast("Callable[..., Any]", node)
    raise GraphDefinitionError(f"{where}: {node!r} is not a callable and has no invoke(state)")


def _wants_context(call: Callable[..., Any], where: str) -> bool:
    """Whether it takes a second argument without a default, or with the annotation GraphContext."""
    needed, most = positions_of(call)
    if most == 0:
        raise GraphDefinitionError(f"{where}: it takes no argument, but is called with the state")
    if needed > 2:
        raise GraphDefinitionError(
            f"{where}: it takes more than (state, ctx); use functools.partial for the rest"
        )
    if needed == 2 or most < 2:
        return needed == 2
    second = [*inspect.signature(call).parameters.values()][1:2]
    return any(one.annotation is GraphContext or "GraphContext" in str(one.annotation) for one in second)


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # not a test of callability


def _table(targets: Mapping[Any, str] | Sequence[str]) -> dict[Any, str]:
    if isinstance(targets, Mapping):
        return dict(targets)
    return {name: name for name in ([targets] if isinstance(targets, str) else targets)}


def _annotated(router: Callable[..., Any]) -> dict[Any, str] | None:
    """Return the names in a router's return annotation, if it is a Literal."""
    try:
        returned = get_type_hints(router).get("return")
    except (TypeError, NameError, AttributeError):
        return None
    if get_origin(returned) is not Literal or not all(isinstance(name, str) for name in get_args(returned)):
        return None
    return _table(list(get_args(returned)))


# --- a graph as a node ------------------------------------------------------------------------------


class Subgraph:
    """Runs a graph inside a task of an outer graph.

    Its writes to shared keys are passed to the outer graph: all of them in order if the outer key has a
    reducer, else the final value. With `keep_state`, its own keys are stored between visits, as part of the
    outer graph's state and checkpoints.
    """

    def __init__(self, graph: Graph[Any], name: str, outer: Schema, *, keep_state: bool) -> None:
        inner = graph.definition.schema
        self._graph = graph
        self._kept = Key(f"{HIDDEN}{name}", inner.type, kept=graph.definition) if keep_state else None
        self.outer = outer if self._kept is None else outer.with_hidden(self._kept)
        shared = [key for key in outer.keys.values() if inner.key(key.name) is not None]
        self._folded = frozenset(key.name for key in shared if key.reducer is not None)
        names = None if inner.is_open else [key for key in inner.keys if outer.key(key) is not None]
        if names is not None and self._kept is not None:
            names.append(self._kept.name)
        self.seen = self.outer.part(names)

    async def __call__(self, state: Any) -> list[Any]:
        given = state
        kept = None
        if is_mapping(state):
            given = {name: value for name, value in state.items() if not name.startswith(HIDDEN)}
            kept = state.get(self._kept.name) if self._kept is not None else None
        outside = CURRENT.get()
        assert outside is not None, "a node runs in a task"
        try:
            values, written = await self._graph.run_inside(outside, given, kept=kept, folded=self._folded)
        except OuterUpdate as outer:
            return [*self._updates(*outer.ended), outer.update]
        return self._updates(copies(values), written)

    def _updates(self, ended: dict[str, Any], written: OuterWrites) -> list[Any]:
        plain = [name for name in sorted(written.keys - self._folded) if not name.startswith(HIDDEN)]
        updates = [{name: value} for name, value in written.writes]
        updates += [
            {name: ended[name]} for name in plain if name in ended and self.outer.key(name) is not None
        ]
        if self._kept is not None:
            updates.append({self._kept.name: ended})
        return updates
