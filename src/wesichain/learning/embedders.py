"""Embedders: turn texts into unit vectors, which are close for texts with similar meanings."""

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
    """Turns texts into vectors. `name` and `dimension` are stored with them, to tell embedders apart."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a unit row of `dimension` numbers for each text."""
        ...


class FunctionEmbedder:
    """An embedder made from a function, such as `SentenceTransformer(...).encode`.

    The function takes a list of texts and returns rows of numbers, which are normalized to length one.
    """

    def __init__(self, name: str, dimension: int, *, function: Callable[[list[str]], Any]) -> None:
        self.name = name
        self.dimension = dimension
        self._function = function

    def embed(self, texts: Sequence[str]) -> Vectors:
        return unit_rows(self._function(list(texts)), dimension=self.dimension, name=self.name)


class SharedEmbedder:
    """Makes an embedder thread-safe, and checks the rows that it returns."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name, self.dimension = embedder.name, embedder.dimension
        self._lock = RLock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row for each text. An error of the embedder, or other rows, raise a `PlaybookError`.

        Lone surrogates, which a model may write, are replaced by question marks.
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
    """Normalize rows to length one, as float32. Rows of another shape raise a `PlaybookError`."""
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
