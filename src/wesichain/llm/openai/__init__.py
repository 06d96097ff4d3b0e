"""OpenAI: the chat completions API, also of other servers with a compatible API, and the Responses API."""

# First: without its SDK this module says which extra is missing, and the transport below does not.
from .client import ACCOUNTS, OpenAiClient, ResponsesClient

# isort: split
from wesichain.llm.transport.keys import KeyAccount

__all__ = ["ACCOUNTS", "KeyAccount", "OpenAiClient", "ResponsesClient"]
