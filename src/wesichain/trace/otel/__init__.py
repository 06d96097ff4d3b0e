"""OpenTelemetry, by the semantic conventions for generative AI. Needs the extra `otel`.

`instrument()` traces every run of the process; `OtelSink` makes spans from the events that it receives.
"""

from .live import Instrumentation, conversation, instrument
from .sink import OtelSink

__all__ = ["Instrumentation", "OtelSink", "conversation", "instrument"]
