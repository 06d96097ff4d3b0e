"""Embedders: the protocol, and what implements it. Each package that one needs has a module of its own."""

from .protocol import CachingEmbedder, Embedder, FunctionEmbedder, Vectors, unit_rows

__all__ = ["CachingEmbedder", "Embedder", "FunctionEmbedder", "Vectors", "unit_rows"]
