"""Compatibility: whether this program has the nodes and joins that a stored thread needs to be resumed.

It is checked before a resumed run writes anything; errors name the missing node or join and a remedy.
Reading a thread does not need these checks.
"""

from __future__ import annotations

from collections.abc import Mapping

from wesichain.core.internal import replace
from wesichain.errors import CheckpointError

from .checkpoints.statecode import StoredPayload
from .checkpoints.thread_journal import LoadedCheckpoint, ThreadJournal
from .definition import Definition, Join
from .superstep import Frontier, NodeTask, added

_REMEDY = (
    "add it, give its new name with migrations={n: Migration(rename={...})}, or continue elsewhere with "
    "graph.update_state(thread_id, None, as_node=...)"
)


def resumable(definition: Definition, journal: ThreadJournal, loaded: LoadedCheckpoint) -> LoadedCheckpoint:
    """Return the checkpoint with this program's joins; raise `CheckpointError` if it cannot resume there."""
    if loaded.refusal is not None:
        raise loaded.refusal
    if loaded.position.frontier is journal.checked_frontier:  # only an answer was added
        return loaded
    frontier, refusal = resolved(definition, loaded.position.frontier, loaded.visits)
    if not loaded.position.frontier.tasks:  # the run has ended
        return loaded
    if refusal is not None:
        raise refusal
    if missing := definition.schema.missing(loaded.position.values):
        raise CheckpointError(
            f"the thread has no value for {', '.join(map(repr, missing))}, which this version of the state "
            f"requires; give one with GraphBuilder(..., migrations={{n: function}})"
        )
    if not journal.is_checked:
        _check_inner(definition, journal, loaded)
        journal.is_checked = True
    if frontier is loaded.position.frontier:
        journal.checked_frontier = frontier
        return loaded
    return replace(loaded, position=replace(loaded.position, frontier=frontier))


def _check_inner(definition: Definition, journal: ThreadJournal, loaded: LoadedCheckpoint) -> None:
    """Check the unfinished inner graphs, at any depth."""
    for task, inner, inside, found in inner_checkpoints(definition, journal, loaded):
        if task.id not in loaded.pending.results:
            resumable(inner, inside, found)


def inner_checkpoints(
    definition: Definition, journal: ThreadJournal, loaded: LoadedCheckpoint
) -> list[tuple[NodeTask, Definition, ThreadJournal, LoadedCheckpoint]]:
    """Find the inner graphs of the next super-step that have started, with their newest checkpoints."""
    before = {now: stored for stored, now in loaded.renamed.items()}
    found: list[tuple[NodeTask, Definition, ThreadJournal, LoadedCheckpoint]] = []
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
    """Return the frontier with the joins of this program, and an error if the program cannot resume from it.

    For a join with changed sources, those new sources count as arrived that had arrived or run before. If no
    source is missing, the target runs now.
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
    """Return the waiting part of a frontier (incomplete joins and deferred nodes), and the targets of joins
    that are complete in this program.
    """
    nodes = definition.nodes
    now, _ = resolved(definition, frontier, visits)
    ready = [task.node for task in now.tasks if task.id not in frontier.by_id]
    here = [nodes[task.node] for task in frontier.tasks if task.node in nodes and not task.is_sent]
    deferred = now.deferred & nodes.keys() | {node.name for node in here if node.defer}
    return Frontier(arrived=now.arrived, deferred=deferred), ready


def _same_join(definition: Definition, join: Join) -> Join | None:
    """Return the join of this program that corresponds to a stored one, if it is unambiguous."""
    if join in definition.joins:
        return join
    near = [one for one in definition.joins if one.target == join.target and one.sources & join.sources]
    return near[0] if len(near) == 1 else None


def _unknown_nodes(definition: Definition, frontier: Frontier) -> CheckpointError | None:
    for task in frontier.tasks:
        if task.node not in definition.nodes:
            return CheckpointError(
                f"the thread continues at the node {task.node!r}, which this graph does not have; {_REMEDY}",
                node=task.node,
            )
        if isinstance(task.payload, StoredPayload):
            return task.payload.error
    if len(frontier.by_id) < len(frontier.tasks):
        names = [task.node for task in frontier.tasks if not task.is_sent]
        twice = next(name for name in names if names.count(name) > 1)
        return CheckpointError(
            f"two tasks of the thread are named {twice!r} after the renames of this version; give each old "
            f"name a different new one",
            node=twice,
        )
    for name in sorted(frontier.deferred - definition.nodes.keys()):
        return CheckpointError(
            f"the thread waits to run the deferred node {name!r}, which this graph does not have; {_REMEDY}",
            node=name,
        )
    return None


def _unknown_join(join: Join, here: frozenset[str]) -> CheckpointError:
    return CheckpointError(
        f"the thread waits at the join {join}, of which {', '.join(map(repr, sorted(here)))} has arrived, "
        f"and this graph does not have it; {_REMEDY}, which drops the join",
        node=join.target,
    )


def _unreachable_source(join: Join, lost: list[str]) -> CheckpointError:
    return CheckpointError(
        f"the thread waits at the join {join}, whose new source {lost[0]!r} can no longer run on it; "
        f"add an edge to it, or continue with graph.update_state(thread_id, None, as_node={lost[0]!r})",
        node=join.target,
    )
