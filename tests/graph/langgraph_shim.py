"""A thin adapter with LangGraph's names, for running its tests of time travel with this engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints
from unittest.mock import patch

from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    END,
    START,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    GraphContext,
    GraphInterrupt,
    MemoryCheckpointer,
    Snapshot,
    interrupt,
)


@dataclass
class Command:
    resume: Any = None


@dataclass
class Task:
    name: str
    interrupts: tuple[GraphInterrupt, ...] = ()
    state: StateSnapshot | None = None


@dataclass
class StateSnapshot:
    values: Any
    next: tuple[str, ...]
    config: dict[str, Any]
    parent_config: dict[str, Any] | None
    metadata: dict[str, Any]
    created_at: float
    tasks: tuple[Task, ...] = ()


_SOURCES = {"branch": "fork"}


def _config(thread_id: str, checkpoint_id: str | None = None, **more: Any) -> dict[str, Any]:
    found = {"thread_id": thread_id, **more}
    return {"configurable": found if checkpoint_id is None else {**found, "checkpoint_id": checkpoint_id}}


def _snapshot(one: Snapshot[Any], answered: tuple[GraphInterrupt, ...] = (), **more: Any) -> StateSnapshot:
    """Convert a snapshot to LangGraph's; `answered` are the questions answered on it since."""

    def tasks() -> Iterator[Task]:
        for name in one.next:
            inner, questions = one.inner.get(name), (*one.interrupts, *answered)
            asked = tuple(found for found in questions if (found.scope or found.node).split("/")[0] == name)
            state = None if inner is None else _snapshot(inner, checkpoint_ns=name)
            yield Task(name, asked, state)

    parent = None if one.parent_id is None else _config(one.thread_id, one.parent_id)
    return StateSnapshot(
        one.values,
        one.next,
        _config(one.thread_id, one.checkpoint_id, **more),
        parent,
        {"source": _SOURCES.get(one.source, one.source), "step": one.step},
        one.created_at,
        tuple(tasks()),
    )


class CompiledGraph:
    """A graph with LangGraph's methods. `keeps` is its `checkpointer=True`."""

    def __init__(self, graph: Graph[Any], *, keeps: bool) -> None:
        self.graph = graph
        self.keeps = keeps

    def invoke(self, given: Any, config: dict[str, Any]) -> Any:
        where = config["configurable"]
        thread, moment = where["thread_id"], where.get("checkpoint_id")
        if where.get("checkpoint_ns"):
            raise NotImplementedError("going back to a checkpoint of an inner graph")
        try:
            if isinstance(given, Command):
                return self.graph.resume_sync(thread, given.resume, checkpoint_id=moment)
            if given is None:
                return self.graph.resume_sync(thread, checkpoint_id=moment)
            return self.graph.invoke_sync(given, ExecutionOptions(thread_id=thread, restart=True))
        except GraphInterruptedError as stop:
            return {**stop.state, "__interrupt__": list(stop.interrupts)}

    def get_state(self, config: dict[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        where = config["configurable"]
        moment = where.get("checkpoint_id")
        return _snapshot(self.graph.get_state_sync(where["thread_id"], moment, inner=subgraphs))

    def get_state_history(self, config: dict[str, Any]) -> Iterator[StateSnapshot]:
        """The checkpoints, newest first. LangGraph has two for an input, before and after START, where we have one."""
        history = self.graph.history_sync(config["configurable"]["thread_id"])
        later = {one.parent_id: one for one in history}
        for one in history:
            then = later[one.checkpoint_id].answered if one.checkpoint_id in later else one.answered
            found = _snapshot(one, tuple(answer.question for answer in then[len(one.answered) :]))
            if one.source != "input":
                yield found
                continue
            before = _config(one.thread_id, f"{one.checkpoint_id}, before")
            yield replace(found, parent_config=before, metadata={**found.metadata, "source": "loop"})
            yield replace(found, next=(START,), config=before, tasks=())

    def update_state(self, config: dict[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        where = config["configurable"]
        if where.get("checkpoint_ns"):
            raise NotImplementedError("an update of an inner graph")
        as_node = None if as_node == "__copy__" else as_node
        thread, moment = where["thread_id"], where.get("checkpoint_id")
        return _config(thread, self.graph.update_state_sync(thread, values, as_node, checkpoint_id=moment))


@dataclass
class StateGraph:
    state: Any
    nodes: dict[str, Any] = field(default_factory=dict)
    edges: list[tuple[Any, str]] = field(default_factory=list)
    routers: list[tuple[str, Any, Any]] = field(default_factory=list)

    def add_node(self, name: str, node: Any) -> StateGraph:
        self.nodes[name] = node
        return self

    def add_edge(self, source: Any, target: str) -> StateGraph:
        self.edges.append((source, target))
        return self

    def add_conditional_edges(self, source: str, router: Any, targets: Any = None) -> StateGraph:
        self.routers.append((source, router, targets))
        return self

    def compile(self, checkpointer: Any = None) -> CompiledGraph:
        builder: GraphBuilder[Any] = GraphBuilder(_with_append(self.state))
        for name, node in self.nodes.items():
            if isinstance(node, CompiledGraph):
                builder.add_node(name, node.graph, keep_state=node.keeps)
            else:
                builder.add_node(name, _as_node(node))
        for source, target in self.edges:
            builder.add_edge(source, target)
        for source, router, targets in self.routers:
            builder.add_conditional_edges(source, router, targets)
        is_store = checkpointer is not None and checkpointer is not True
        return CompiledGraph(builder.build(checkpointer if is_store else None), keeps=checkpointer is True)


def _with_append(state: Any) -> Any:
    """The state with `Append` in place of `operator.add` on lists."""
    keys = {}
    for name, hint in get_type_hints(state, include_extras=True).items():
        is_list = get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is list
        keys[name] = Annotated[get_args(hint)[0], Append] if is_list else hint
    return TypedDict(state.__name__, keys, total=False)  # type: ignore[operator]  # made at run time


def _as_node(node: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a config made from our context to a node that takes one."""
    if "config" not in node.__annotations__:
        return node

    def with_config(state: Any, ctx: GraphContext) -> Any:
        return node(state, {"configurable": {"thread_id": ctx.thread_id, "checkpoint_ns": ctx.scope}})

    return with_config


@contextmanager
def as_langgraph() -> Iterator[None]:
    """Let `import langgraph` find the names here."""
    names: dict[str, dict[str, Any]] = {
        "langgraph.graph": {"START": START, "END": END, "StateGraph": StateGraph},
        "langgraph.types": {"Command": Command, "interrupt": interrupt},
        "langgraph.checkpoint.base": {"BaseCheckpointSaver": MemoryCheckpointer},
        "langchain_core.runnables": {"RunnableConfig": dict},
    }
    modules: dict[str, ModuleType] = {}
    for name, found in names.items():
        parts = name.split(".")
        for index in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:index]), ModuleType(".".join(parts[:index])))
        for key, value in found.items():
            setattr(modules[name], key, value)
    with patch.dict(sys.modules, modules):
        yield
