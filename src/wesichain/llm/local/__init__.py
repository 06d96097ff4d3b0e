"""Local models: downloaded once, run by llama.cpp in a child process, with a grammar for tool calls."""

from .files.cache import cached_model, models_folder
from .files.fetch import fetch_model
from .files.manifest import DEFAULT_MODEL, MODELS, DataWheels, ModelCard, find_model
from .files.progress import Progress, StderrProgress
from .model import LocalLlm, Timings

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "DataWheels",
    "LocalLlm",
    "ModelCard",
    "Progress",
    "StderrProgress",
    "Timings",
    "cached_model",
    "fetch_model",
    "find_model",
    "models_folder",
]
