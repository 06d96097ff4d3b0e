"""Models: a module for each provider, and one for text ReAct.

The names here are those that a client of your own is written with.
"""

from wesichain.core.internal import Caching, FinishReason, LlmTraits, Reasoning, StreamingLlm, StreamItem

__all__ = ["Caching", "FinishReason", "LlmTraits", "Reasoning", "StreamItem", "StreamingLlm"]
