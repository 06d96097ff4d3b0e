"""Watching a run: observers, the event log, streams and drawings."""

from .drawing import NodeVisit, mermaid, run_mermaid, run_svg, visits
from .narrate import RunLog
from .observer import CollectingObserver, ConsoleObserver, Observer
from .report import RunReport, ScopedSink
from .stream import GraphStream, Mode, StreamItem, Tap

__all__ = [
    "CollectingObserver",
    "ConsoleObserver",
    "GraphStream",
    "Mode",
    "NodeVisit",
    "Observer",
    "RunLog",
    "RunReport",
    "ScopedSink",
    "StreamItem",
    "Tap",
    "mermaid",
    "run_mermaid",
    "run_svg",
    "visits",
]
