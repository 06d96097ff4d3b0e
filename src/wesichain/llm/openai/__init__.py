"""OpenAI: the chat completions API, also of other servers with a compatible API, and the Responses API."""

from wesichain.llm.transport.keys import KeyAccount

from .client import ACCOUNTS, OpenAiClient, ResponsesClient

__all__ = ["ACCOUNTS", "KeyAccount", "OpenAiClient", "ResponsesClient"]
