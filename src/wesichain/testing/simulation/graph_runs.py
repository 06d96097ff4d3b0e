"""Simulated runs of a graph: after a crash, a new process resumes the thread from its checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from copy import copy
from functools import partial, wraps
from typing import Any, TypeGuard, cast

from wesichain.core.internal import replace
from wesichain.errors import ConfigError, GraphError, GraphInterruptedError
from wesichain.graph import Checkpointer, ExecutionOptions, Graph, ThreadEntry

from .boundary import Process
from .people import Answers, SimulatedQuestion, answers_to
from .simulated_run import SimulatedRun


def is_graph(program: object) -> TypeGuard[Graph[Any]]:
    return isinstance(program, Graph)


async def run_graph(run: SimulatedRun, process: Process, given: Graph[Any]) -> None:
    """Run the task until it has ended or nobody resumes it; each crash starts a new process."""
    answers: Answers | None = None
    while True:
        graph = graph_in_process(run, process, given)
        options = ExecutionOptions(
            thread_id=run.id, run_id=run.id, events=run.boundary.sink(process, run.events.append)
        )
        resume = partial(graph.resume, run.id, options=options, context=run.world)
        if answers is not None:
            code = resume(answers.given)
            if answers.is_repeated:
                run.answer_again(process, resume(answers.given))
        elif await _checkpointer(given).read(run.id):
            code = resume()
        else:
            code = graph.invoke(run.scenario.task, options, context=run.world)
        questions = await _questions_of(run, process, code)
        answers = None
        if questions:
            answers = await answers_to(questions, run.scenario.people, run.plan, run.loop)
            if answers is not None:
                run.boundary.crash_here(process, "while it waited for " + ", ".join(q.key for q in questions))
        if not process.is_dead and answers is None:
            break
        if process.is_dead:
            process, given = await run.restart()
    await keep_state(run, given)


async def keep_state(run: SimulatedRun, graph: Graph[Any]) -> None:
    """Set the state of the graph's thread, if there is one, as the outcome of the simulated run."""
    if await _checkpointer(graph).read(run.id):
        run.outcome = await graph.get_state(run.id)


def graph_in_process(run: SimulatedRun, process: Process, graph: Graph[Any]) -> Graph[Any]:
    """The graph in a process, with virtual time, and ids and writes that depend on the seed."""
    defaults = graph._defaults  # pyright: ignore[reportPrivateUsage]  # copied with another clock
    return Graph(
        _with_faults(run, graph.definition, defaults),
        defaults=defaults,
        checkpointer=cast("Checkpointer", _ProcessCheckpointer(run, process, _checkpointer(graph))),
        clock=run.loop.clock,
        new_id=run.new_id,
        store=graph.store,
    )


def _with_faults(run: SimulatedRun, definition: Any, defaults: ExecutionOptions, inside: str = "") -> Any:
    """The definition of a graph whose nodes are boundaries, at any depth."""
    made = copy(definition)
    nodes = definition.nodes.items()
    made.nodes = {name: _node_with_faults(run, node, defaults, f"{inside}{name}") for name, node in nodes}
    return made


def _node_with_faults(run: SimulatedRun, node: Any, defaults: ExecutionOptions, path: str) -> Any:
    if node.is_agent:
        return node  # not a boundary: its model and tool calls are
    if node.inner is not None:
        subgraph = copy(node.call)
        subgraph._graph = copy(subgraph._graph)
        subgraph._graph.definition = _with_faults(run, node.inner, defaults, f"{path}/")
        return replace(node, call=subgraph)
    is_bounded = (node.timeout, defaults.node_timeout, defaults.max_duration) != (None, None, None)
    kinds = ("node_raises", "node_hangs", "node_late") if node.is_async and is_bounded else ("node_raises",)

    def fault() -> str | None:
        kind = run.plan.at(run.plan.visit(f"node {path}"), kinds)
        if kind == "node_raises":
            raise ConnectionError("simulated: the connection was reset")
        return kind

    @wraps(node.call)
    async def call_async(*args: Any) -> Any:
        kind = fault()
        if kind == "node_hangs":
            await run.loop.create_future()
        result = await node.call(*args)
        if kind == "node_late":
            await run.loop.create_future()
        return result

    @wraps(node.call)
    def call(*args: Any) -> Any:
        fault()
        return node.call(*args)

    return replace(node, call=call_async if node.is_async else call)


def _checkpointer(graph: Graph[Any]) -> Checkpointer:
    if graph.checkpointer is None:
        raise ConfigError("the scenario's graph has no checkpointer: pass one from its world to build()")
    return graph.checkpointer


async def _questions_of(
    run: SimulatedRun, process: Process, code: Coroutine[Any, Any, Any]
) -> list[SimulatedQuestion]:
    """Run code until it ends or its process dies; returns the open questions of the graph."""
    task = process.task = run.task_of(process, code)
    await asyncio.wait({task, process.dies_at_once()}, return_when=asyncio.FIRST_COMPLETED)
    if process.is_dead:
        return []
    try:
        task.result()
    except GraphInterruptedError as stop:
        return graph_questions(stop)
    except (GraphError, asyncio.CancelledError):
        pass  # its state is in the thread
    return []


def graph_questions(stop: GraphInterruptedError) -> list[SimulatedQuestion]:
    """The open questions of an interrupted graph."""
    return [
        SimulatedQuestion(one.id, f"answer to {one.node} {one.name}", one, one.expires_at)
        for one in stop.interrupts
    ]


class _ProcessCheckpointer:
    """The checkpointer of one process. The process may crash before or after each append."""

    def __init__(self, run: SimulatedRun, process: Process, inner: Checkpointer) -> None:
        self._run = run
        self._process = process
        self._append = inner.append
        self.read, self.delete, self.threads = inner.read, inner.delete, inner.threads
        self.keeps_parts: bool = getattr(inner, "keeps_parts", False)

    async def append(self, thread_id: str, entries: Sequence[ThreadEntry], **options: Any) -> None:
        run, place = self._run, self._run.plan.visit("checkpoint")
        await asyncio.sleep(run.plan.number(place, low=0.001, high=0.05))
        run.boundary.crash_here(self._process, f"{place}, before the write")
        if self._process.is_dead:
            await run.loop.create_future()  # it never continues
        await self._append(thread_id, entries, **options)
        run.boundary.crash_here(self._process, f"{place}, after the write")
