"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

from .faults import Endpoint, retry_after
from .http import HttpTransport, Line, Reply, certificates, keep_open
from .keys import PLACEHOLDER, Account, Key, asked_key, host_of
from .model import HttpLlm, HttpSettings
from .patience import Patience, persist
from .sse import SseEvent, SseScanner

__all__ = [
    "PLACEHOLDER",
    "Account",
    "Endpoint",
    "HttpLlm",
    "HttpSettings",
    "HttpTransport",
    "Key",
    "Line",
    "Patience",
    "Reply",
    "SseEvent",
    "SseScanner",
    "asked_key",
    "certificates",
    "host_of",
    "keep_open",
    "persist",
    "retry_after",
]
