"""The traces of a run: recordings and their readers, redaction, sinks, metrics.

`trace.otel` has the sink for OpenTelemetry; it is a module of its own because it needs a package.
"""

from .compare import Change, Difference, diff
from .console import ConsoleSink
from .metrics import Figures, Metrics
from .recordings import (
    RecordedCall,
    RecordedStep,
    Recorder,
    Recording,
    RunSummary,
    find_run,
    list_runs,
    load,
    parts_folder,
    prune,
    read_new,
)
from .redaction import Redactor, redact
from .sinks import BufferedSink, CollectingSink
from .terminal import neutralise

__all__ = [
    "BufferedSink",
    "Change",
    "CollectingSink",
    "ConsoleSink",
    "Difference",
    "Figures",
    "Metrics",
    "RecordedCall",
    "RecordedStep",
    "Recorder",
    "Recording",
    "Redactor",
    "RunSummary",
    "diff",
    "find_run",
    "list_runs",
    "load",
    "neutralise",
    "parts_folder",
    "prune",
    "read_new",
    "redact",
]
