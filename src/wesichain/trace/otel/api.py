"""The OpenTelemetry API, from the extra `otel`: the one module that imports it."""

from __future__ import annotations

from wesichain.errors import MissingDependencyError

try:
    from opentelemetry.context import attach as attach
    from opentelemetry.context import get_current as get_current
    from opentelemetry.metrics import Histogram as Histogram
    from opentelemetry.metrics import Meter as Meter
    from opentelemetry.metrics import MeterProvider as MeterProvider
    from opentelemetry.metrics import get_meter as get_meter
    from opentelemetry.trace import Span as Span
    from opentelemetry.trace import SpanKind as SpanKind
    from opentelemetry.trace import Status as Status
    from opentelemetry.trace import StatusCode as StatusCode
    from opentelemetry.trace import Tracer as Tracer
    from opentelemetry.trace import TracerProvider as TracerProvider
    from opentelemetry.trace import get_tracer as get_tracer
    from opentelemetry.trace import set_span_in_context as set_span_in_context
except ImportError as error:  # pragma: no cover
    raise MissingDependencyError("OpenTelemetry", package="opentelemetry-api", extra="otel") from error
