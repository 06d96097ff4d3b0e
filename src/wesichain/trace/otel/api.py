"""OpenTelemetry's API, which the extra `otel` brings; nothing else here imports it."""

from __future__ import annotations

from wesichain.errors import MissingDependencyError

try:
    from opentelemetry.context import attach, get_current
    from opentelemetry.metrics import Histogram, Meter, MeterProvider, get_meter
    from opentelemetry.trace import (
        Span,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_tracer,
        set_span_in_context,
    )
except ImportError as error:  # pragma: no cover
    raise MissingDependencyError("OpenTelemetry", package="opentelemetry-api", extra="otel") from error

__all__ = [
    "Histogram",
    "Meter",
    "MeterProvider",
    "Span",
    "SpanKind",
    "Status",
    "StatusCode",
    "Tracer",
    "TracerProvider",
    "attach",
    "get_current",
    "get_meter",
    "get_tracer",
    "set_span_in_context",
]
