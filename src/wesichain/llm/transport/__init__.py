"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

from .faults import Endpoint, retry_after
from .http import HttpTransport, ProviderRoute, Reply, certificates, event_object, keep_open
from .keys import PLACEHOLDER, Key, KeyAccount, asked_key, host_of
from .model import Adapter, HttpLlm, HttpSettings, MakeTransport
from .retry_limits import RetryLimits, persist
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
    "certificates",
    "event_object",
    "host_of",
    "keep_open",
    "persist",
    "retry_after",
]
