"""The transport that the adapters share: one set of rules for retries, deadlines, limits and faults."""

from .faults import Endpoint, retry_after
from .http import HttpTransport, Line, Reply
from .keys import PLACEHOLDER, Account, host_of
from .patience import Patience, persist
from .sse import SseEvent, SseScanner

__all__ = [
    "PLACEHOLDER",
    "Account",
    "Endpoint",
    "HttpTransport",
    "Line",
    "Patience",
    "Reply",
    "SseEvent",
    "SseScanner",
    "host_of",
    "persist",
    "retry_after",
]
