"""OpenAI and every server that speaks its chat completions."""

from .client import OpenAiClient

__all__ = ["OpenAiClient"]
