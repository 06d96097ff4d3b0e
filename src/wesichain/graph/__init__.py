"""Graphs: nodes that run in super-steps over a shared state, with checkpoints and questions to people."""

from .builder import GraphBuilder
from .checkpoints import (
    Checkpointer,
    Entry,
    LogCheckpointer,
    MemoryCheckpointer,
    ThreadInfo,
    compact,
    copy_thread,
    prune,
)
from .context import ExecutionOptions, GraphContext, Interrupt, interrupt
from .definition import END, START, Retry
from .graph import Graph
from .react import ReActAgentNode, ToolFailurePolicy
from .react.stepwise import ReActGraph, react_graph
from .snapshots import Snapshot, TaskState
from .state import Add, Append, Merge, Overwrite, PerStep, Reducer, Send, SetUnion, StateUpdate, Untracked
from .watch import (
    CollectingObserver,
    ConsoleObserver,
    GraphStream,
    NodeVisit,
    Observer,
    StreamItem,
    run_svg,
    visits,
)

__all__ = [
    "END",
    "START",
    "Add",
    "Append",
    "Checkpointer",
    "CollectingObserver",
    "ConsoleObserver",
    "Entry",
    "ExecutionOptions",
    "Graph",
    "GraphBuilder",
    "GraphContext",
    "GraphStream",
    "Interrupt",
    "LogCheckpointer",
    "MemoryCheckpointer",
    "Merge",
    "NodeVisit",
    "Observer",
    "Overwrite",
    "PerStep",
    "ReActAgentNode",
    "ReActGraph",
    "Reducer",
    "Retry",
    "Send",
    "SetUnion",
    "Snapshot",
    "StateUpdate",
    "StreamItem",
    "TaskState",
    "ThreadInfo",
    "ToolFailurePolicy",
    "Untracked",
    "compact",
    "copy_thread",
    "interrupt",
    "prune",
    "react_graph",
    "run_svg",
    "visits",
]
