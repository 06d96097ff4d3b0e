"""Embedders: texts as unit vectors, close where the texts mean the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from wesichain.errors import PlaybookError, WesichainError

Vectors: TypeAlias = npt.NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """`name` and `dimension` are kept with the vectors: those of two embedders cannot be compared."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """One unit row of `dimension` numbers for each text."""
        ...


class FunctionEmbedder:
    """Any function from texts to rows of numbers, such as `SentenceTransformer(...).encode`.

    The rows are brought to length one.
    """

    def __init__(self, name: str, dimension: int, *, function: Callable[[list[str]], Any]) -> None:
        self.name = name
        self.dimension = dimension
        self._function = function

    def embed(self, texts: Sequence[str]) -> Vectors:
        return unit_rows(self._function(list(texts)), dimension=self.dimension, name=self.name)


class SharedEmbedder:
    """Any embedder, for threads to share: one of them embeds at a time, and the rows are checked."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name, self.dimension = embedder.name, embedder.dimension
        self._lock = RLock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A unit row for each text; whatever the embedder does else is a `PlaybookError`.

        Half a character, which a model may write, is handed over as a question mark.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        whole = [text.encode(errors="replace").decode() for text in texts]
        try:
            with self._lock:
                rows = self.embedder.embed(whole)
        except WesichainError:
            raise
        except Exception as error:
            raise PlaybookError(
                f"the embedder {self.name!r} raised {type(error).__name__}: {error}"
            ) from error
        found = unit_rows(rows, dimension=self.dimension, name=self.name)
        if len(found) != len(texts):
            raise PlaybookError(f"the embedder {self.name!r} gave {len(found)} rows for {len(texts)} texts")
        return found


def unit_rows(rows: Any, *, dimension: int, name: str) -> Vectors:
    """Rows as float32 of length one; a `PlaybookError` where they are not what was promised."""
    matrix = np.ascontiguousarray(rows, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != dimension:
        raise PlaybookError(
            f"the embedder {name!r} promised rows of {dimension} numbers and gave the shape {matrix.shape}"
        )
    # As `np.linalg.norm` of each row, in half of its time.
    lengths = np.sqrt(np.add.reduce(matrix * matrix, axis=1, keepdims=True))
    if not np.isfinite(lengths).all():
        raise PlaybookError(f"the embedder {name!r} gave numbers that are not finite")
    return np.asarray(matrix / np.maximum(lengths, 1e-12), dtype=np.float32)
