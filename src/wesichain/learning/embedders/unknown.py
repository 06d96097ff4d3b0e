"""An embedder that is known by name alone, for what needs none."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.errors import PlaybookError

from .protocol import Vectors


class UnknownEmbedder:
    """Stands for an embedder of which only the name and the dimension are known."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name = name
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        raise PlaybookError(
            f"the playbook was opened to be looked at; open it with its embedder, {self.name!r}, to embed "
            f"{len(texts)} texts"
        )
