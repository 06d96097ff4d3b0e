"""Watching a run: observers, the event log, streams and drawings."""

from .drawing import mermaid
from .narrate import RunLog
from .observer import CollectingObserver, ConsoleObserver, Observer
from .report import RunReport, ScopedSink
from .stream import GraphStream, Mode, StreamItem, Tap

__all__ = [
    "CollectingObserver",
    "ConsoleObserver",
    "GraphStream",
    "Mode",
    "Observer",
    "RunLog",
    "RunReport",
    "ScopedSink",
    "StreamItem",
    "Tap",
    "mermaid",
]
