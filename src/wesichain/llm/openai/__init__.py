"""OpenAI: the chat completions API, also of other servers with a compatible API, and the Responses API."""

# First: without the SDK, this import raises the error that names the missing extra.
from .client import OpenAiClient, ResponsesClient

# isort: split
from wesichain.llm.transport.keys import KeyAccount

from .accounts import ACCOUNTS

__all__ = ["ACCOUNTS", "KeyAccount", "OpenAiClient", "ResponsesClient"]
