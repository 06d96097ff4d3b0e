"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

from .faults import Endpoint, retry_after
from .http import Connect, ProviderRoute, Reply, certificates, event_object
from .keys import PLACEHOLDER, Key, KeyAccount, host_of
from .model import Adapter, HttpLlm, HttpSettings
from .retry_limits import RetryLimits
from .sse import SseEvent, SseScanner

__all__ = [
    "PLACEHOLDER",
    "Adapter",
    "Connect",
    "Endpoint",
    "HttpLlm",
    "HttpSettings",
    "Key",
    "KeyAccount",
    "ProviderRoute",
    "Reply",
    "RetryLimits",
    "SseEvent",
    "SseScanner",
    "certificates",
    "event_object",
    "host_of",
    "retry_after",
]
