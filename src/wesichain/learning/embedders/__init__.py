"""Embedders: the protocol, and what implements it. Each package that one needs has a module of its own."""

from .protocol import (
    DEFAULT_EMBEDDER,
    Embedder,
    FunctionEmbedder,
    UnknownEmbedder,
    Vectors,
    rows_for,
    unit_rows,
)

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "FunctionEmbedder",
    "UnknownEmbedder",
    "Vectors",
    "rows_for",
    "unit_rows",
]
