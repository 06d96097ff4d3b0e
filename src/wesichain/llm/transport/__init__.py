"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

from .faults import Endpoint, retry_after
from .http import HttpTransport, ProviderRoute, Reply, event_object
from .keys import PLACEHOLDER, Key, KeyAccount, asked_key, host_of
from .model import Adapter, HttpLlm, HttpSettings, MakeTransport
from .retry_limits import RetryLimits
from .sse import SseEvent, SseScanner

__all__ = [
    "PLACEHOLDER",
    "Adapter",
    "Endpoint",
    "HttpLlm",
    "HttpSettings",
    "HttpTransport",
    "Key",
    "KeyAccount",
    "MakeTransport",
    "ProviderRoute",
    "Reply",
    "RetryLimits",
    "SseEvent",
    "SseScanner",
    "asked_key",
    "event_object",
    "host_of",
    "retry_after",
]
