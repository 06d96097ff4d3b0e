"""Watching a run: observers, the event log, streams and drawings."""

from .drawing import NodeVisit, run_mermaid, run_svg, visits
from .mermaid import mermaid
from .narrate import RunLog, ScopedSink
from .observer import CollectingObserver, ConsoleObserver, Observer, Watcher
from .stream import GraphStream

__all__ = [
    "CollectingObserver",
    "ConsoleObserver",
    "GraphStream",
    "NodeVisit",
    "Observer",
    "RunLog",
    "ScopedSink",
    "Watcher",
    "mermaid",
    "run_mermaid",
    "run_svg",
    "visits",
]
