"""Model files: which are known, where they are kept, and how they get there."""

from .cache import cached_model, models_folder
from .fetch import fetch_model
from .manifest import DEFAULT_MODEL, MODELS, DataWheels, ModelCard, find_model
from .progress import Progress, StderrProgress

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "DataWheels",
    "ModelCard",
    "Progress",
    "StderrProgress",
    "cached_model",
    "fetch_model",
    "find_model",
    "models_folder",
]
