"""Watching a run: observers, the event log, streams and drawings."""

from .drawing import NodeVisit, run_mermaid, run_svg, visits
from .mermaid import mermaid
from .narrate import RunLog, ScopedSink
from .observer import CollectingObserver, ConsoleObserver, Observer, Watcher
from .stream import GraphStream
from .tap import Mode, StreamItem, Tap

__all__ = [
    "CollectingObserver",
    "ConsoleObserver",
    "GraphStream",
    "Mode",
    "NodeVisit",
    "Observer",
    "RunLog",
    "ScopedSink",
    "StreamItem",
    "Tap",
    "Watcher",
    "mermaid",
    "run_mermaid",
    "run_svg",
    "visits",
]
