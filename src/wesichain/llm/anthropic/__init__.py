"""Anthropic's messages API."""

from .client import AnthropicClient

__all__ = ["AnthropicClient"]
