"""Whether this program can go on with a thread: what the log says, against the nodes and joins of the graph.

Reading a thread never comes here. Going on does, before anything is written: what this program does not have
is named, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from wesichain.core.internal import replace
from wesichain.errors import CheckpointError

from .checkpoints.journal import Loaded, ThreadJournal
from .checkpoints.statecode import StoredPayload
from .definition import Definition, Join
from .superstep import Frontier, NodeTask, added

_REMEDY = (
    "add it, name its new name with migrations={n: Migration(rename={...})}, or go on elsewhere with "
    "graph.update_state(thread_id, None, as_node=...)"
)


def continued(definition: Definition, journal: ThreadJournal, loaded: Loaded) -> Loaded:
    """The checkpoint, in the joins of this program; raises `CheckpointError` where it cannot go on there."""
    if loaded.refusal is not None:
        raise loaded.refusal
    if loaded.position.frontier is journal.able_at:  # an answer more: the same tasks wait
        return loaded
    frontier, refusal = resolved(definition, loaded.position.frontier, loaded.visits)
    if not loaded.position.frontier.tasks:  # the run is over: nothing waits any more
        return loaded
    if refusal is not None:
        raise refusal
    if missing := definition.schema.missing(loaded.position.values):
        raise CheckpointError(
            f"the thread has no value for {', '.join(map(repr, missing))}, which this version of the state "
            f"needs; give one with GraphBuilder(..., migrations={{n: function}})"
        )
    if not journal.can_go_on:
        _check_inner(definition, journal, loaded)
        journal.can_go_on = True
    if frontier is loaded.position.frontier:
        journal.able_at = frontier
        return loaded
    return replace(loaded, position=replace(loaded.position, frontier=frontier))


def _check_inner(definition: Definition, journal: ThreadJournal, loaded: Loaded) -> None:
    """Check graphs that wait inside a task, at any depth."""
    for task, inner, inside, found in inner_checkpoints(definition, journal, loaded):
        if task.id not in loaded.pending.results:
            continued(inner, inside, found)


def inner_checkpoints(
    definition: Definition, journal: ThreadJournal, loaded: Loaded
) -> list[tuple[NodeTask, Definition, ThreadJournal, Loaded]]:
    """The graphs inside the tasks of the next super-step that have begun, with their newest checkpoints."""
    before = {now: stored for stored, now in loaded.renamed.items()}
    found: list[tuple[NodeTask, Definition, ThreadJournal, Loaded]] = []
    for task in loaded.position.frontier.tasks:
        node = definition.nodes.get(task.node)
        if node is None or node.inner is None:
            continue
        place = journal.place(NodeTask(before.get(task.id, task.id), task.node), loaded.checkpoint)
        inside = journal.inside(f"{place}/1", "", node.inner)
        checkpoint = inside.load()
        if checkpoint is not None:
            found.append((task, node.inner, inside, checkpoint))
    return found


def resolved(
    definition: Definition, frontier: Frontier, visits: Mapping[str, int]
) -> tuple[Frontier, CheckpointError | None]:
    """The frontier with its joins as this program has them, and what it lacks for going on from there.

    A join whose sources have changed is on its way with those of its new sources that have arrived, or that
    had run before they were its sources. Where none is left to come, its target runs now.
    """
    refusal = _unknown_nodes(definition, frontier)
    if not frontier.arrived or all(join in definition.joins for join in frontier.arrived):
        return frontier, refusal
    arrived: dict[Join, frozenset[str]] = {}
    ready: list[str] = []
    for join, here in frontier.arrived.items():
        now = _same_join(definition, join)
        if now is None:
            refusal = refusal or _unknown_join(join, here)
            continue
        ahead = {task.node for task in frontier.tasks} | frontier.deferred
        ran = {node for node in now.sources - join.sources if visits.get(node, 0) and node not in ahead}
        found = (here | ran) & now.sources if now != join else here
        if found == now.sources:
            ready.append(now.target)
        else:
            arrived[now] = found
            lost = now.sources - found - definition.reachable(ahead, without=now)
            if now != join and lost:
                refusal = refusal or _unreachable_source(now, sorted(lost))
    frontier = replace(frontier, arrived=arrived)
    return added(definition, frontier, ready) if ready else frontier, refusal


def still_waiting(
    definition: Definition, frontier: Frontier, visits: Mapping[str, int]
) -> tuple[Frontier, list[str]]:
    """The part of a frontier that is no step to take now: half-arrived joins, and deferred nodes. And the
    targets of joins that have nothing left to wait for in this program.
    """
    nodes = definition.nodes
    now, _ = resolved(definition, frontier, visits)
    ready = [task.node for task in now.tasks if task.id not in frontier.by_id]
    here = [nodes[task.node] for task in frontier.tasks if task.node in nodes and not task.is_sent]
    deferred = now.deferred & nodes.keys() | {node.name for node in here if node.defer}
    return Frontier(arrived=now.arrived, deferred=deferred), ready


def _same_join(definition: Definition, join: Join) -> Join | None:
    """The join of this program that a stored one is: the same, or the only one that it can have become."""
    if join in definition.joins:
        return join
    near = [one for one in definition.joins if one.target == join.target and one.sources & join.sources]
    return near[0] if len(near) == 1 else None


def _unknown_nodes(definition: Definition, frontier: Frontier) -> CheckpointError | None:
    for task in frontier.tasks:
        if task.node not in definition.nodes:
            return CheckpointError(
                f"the thread goes on at the node {task.node!r}, which this graph does not have; {_REMEDY}",
                node=task.node,
            )
        if isinstance(task.payload, StoredPayload):
            return task.payload.error
    if len(frontier.by_id) < len(frontier.tasks):
        names = [task.node for task in frontier.tasks if not task.is_sent]
        twice = next(name for name in names if names.count(name) > 1)
        return CheckpointError(
            f"two tasks of the thread are called {twice!r} after the renames of this version; give each old "
            f"name a new one of its own",
            node=twice,
        )
    for name in sorted(frontier.deferred - definition.nodes.keys()):
        return CheckpointError(
            f"the thread is to run the deferred node {name!r}, which this graph does not have; {_REMEDY}",
            node=name,
        )
    return None


def _unknown_join(join: Join, here: frozenset[str]) -> CheckpointError:
    return CheckpointError(
        f"the thread waits at the join {join}, of which {', '.join(map(repr, sorted(here)))} has arrived, "
        f"and this graph does not have it; {_REMEDY}, which gives the join up",
        node=join.target,
    )


def _unreachable_source(join: Join, lost: list[str]) -> CheckpointError:
    return CheckpointError(
        f"the thread waits at the join {join}, whose source {lost[0]!r} is new and cannot run any more on "
        f"this thread; lead to it, or go on elsewhere with graph.update_state(thread_id, None, "
        f"as_node={lost[0]!r})",
        node=join.target,
    )
