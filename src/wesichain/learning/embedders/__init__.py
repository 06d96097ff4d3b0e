"""Embedders: the protocol, and what implements it. Each package that one needs has a module of its own."""

from .protocol import Embedder, FunctionEmbedder, Vectors, rows_for

__all__ = ["Embedder", "FunctionEmbedder", "Vectors", "rows_for"]
