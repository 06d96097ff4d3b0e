"""Graphs: nodes that run in super-steps over a shared state, with checkpoints and questions to humans."""

from typing import TYPE_CHECKING

from wesichain.core.internal import (
    CheckpointSaved,
    GraphEvent,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    lazy_getattr,
)
from wesichain.store import MemoryStore, Store, StoreItem, ThreadEntry

from .builder import GraphBuilder
from .checkpoints.checkpointer import (
    Checkpointer,
    LogCheckpointer,
    MemoryCheckpointer,
    ThreadInfo,
    compact,
    copy_thread,
    prune,
)
from .context import ExecutionOptions, GraphContext
from .definition import END, START, Migrate, Migration, RetryPolicy
from .graph import Graph
from .questions import Answered, GraphInterrupt, interrupt
from .react.agent_run import ToolFailurePolicy
from .react.node import ReActAgentNode
from .react.stepwise import react_graph
from .snapshots import Snapshot, TaskState
from .state.reducers import Add, Append, Merge, Overwrite, PerStep, Reducer, SetUnion, Untracked
from .state.updates import Send, StateUpdate
from .watch.observer import CollectingObserver, ConsoleObserver, Observer
from .watch.stream import GraphStream, StreamItem

if TYPE_CHECKING:
    from .postgres import PostgresStore as PostgresStore
    from .sqlite import SqliteStore as SqliteStore
else:
    __getattr__ = lazy_getattr(
        __name__,
        {".postgres": ("PostgresStore",), ".sqlite": ("SqliteStore",)},
        renamed={"Interrupt": "GraphInterrupt", "Retry": "RetryPolicy"},
    )

__all__ = [
    "END",
    "START",
    "Add",
    "Answered",
    "Append",
    "CheckpointSaved",
    "Checkpointer",
    "CollectingObserver",
    "ConsoleObserver",
    "ExecutionOptions",
    "Graph",
    "GraphBuilder",
    "GraphContext",
    "GraphEvent",
    "GraphInterrupt",
    "GraphStream",
    "LogCheckpointer",
    "MemoryCheckpointer",
    "MemoryStore",
    "Merge",
    "Migrate",
    "Migration",
    "NodeCompleted",
    "NodeFailed",
    "NodeStarted",
    "Observer",
    "Overwrite",
    "PerStep",
    "PostgresStore",
    "ReActAgentNode",
    "Reducer",
    "RetryPolicy",
    "Send",
    "SetUnion",
    "Snapshot",
    "SqliteStore",
    "StateUpdate",
    "Store",
    "StoreItem",
    "StreamItem",
    "TaskState",
    "ThreadEntry",
    "ThreadInfo",
    "ToolFailurePolicy",
    "Untracked",
    "compact",
    "copy_thread",
    "interrupt",
    "prune",
    "react_graph",
]
