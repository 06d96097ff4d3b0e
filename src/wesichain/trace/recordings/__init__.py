"""Runs on disk: written by the recorder, read as recordings, listed and pruned by the folder."""

from .folder import RunSummary, find_run, list_runs, prune
from .format import STATUS_OF
from .parts_folder import parts_folder
from .recorder import Recorder
from .recording import RecordedCall, RecordedStep, Recording, load, read_new

__all__ = [
    "STATUS_OF",
    "RecordedCall",
    "RecordedStep",
    "Recorder",
    "Recording",
    "RunSummary",
    "find_run",
    "list_runs",
    "load",
    "parts_folder",
    "prune",
    "read_new",
]
