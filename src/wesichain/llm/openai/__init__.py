"""OpenAI: chat completions, which many other servers speak as well, and the Responses API."""

from .client import ACCOUNTS, OpenAiClient, ResponsesClient

__all__ = ["ACCOUNTS", "OpenAiClient", "ResponsesClient"]
