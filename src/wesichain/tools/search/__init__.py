"""Search: one tool that finds the others."""

from .tool_search import TextEmbedder, ToolSearch

__all__ = ["TextEmbedder", "ToolSearch"]
