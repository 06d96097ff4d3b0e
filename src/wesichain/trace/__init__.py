"""The traces of a run: recordings and their readers, redaction, sinks, metrics.

`trace.otel` has the sink for OpenTelemetry; it is a module of its own because it needs a package.
"""

from wesichain.core.internal import SecretFilter, register_secret

from .compare import Change, Difference, diff
from .console import ConsoleSink
from .metrics import Figures, Metrics
from .recordings.folder import RunSummary, find_run, list_runs, prune
from .recordings.parts_folder import parts_folder
from .recordings.recorder import Recorder
from .recordings.recording import RecordedCall, RecordedStep, Recording, RecordingReader, load
from .redaction.masks import equal_redacted
from .redaction.redactor import Redactor, redact
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
    "RecordingReader",
    "Redactor",
    "RunSummary",
    "SecretFilter",
    "diff",
    "equal_redacted",
    "find_run",
    "list_runs",
    "load",
    "neutralise",
    "parts_folder",
    "prune",
    "redact",
    "register_secret",
]
