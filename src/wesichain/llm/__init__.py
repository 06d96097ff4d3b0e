"""Models: one module per provider, and text ReAct for models that cannot call tools.

The names exported here are for clients of your own.
"""

from wesichain.core.internal import Caching, FinishReason, LlmTraits, Reasoning, StreamingLlm, StreamItem

__all__ = ["Caching", "FinishReason", "LlmTraits", "Reasoning", "StreamItem", "StreamingLlm"]
