"""Spans of OpenTelemetry; the trace of a request has its id, in every process that it comes through.

Kept in memory (the newest of them), or sent to where the standard variable `OTEL_EXPORTER_OTLP_ENDPOINT` says.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, set_span_in_context

PARENT: Final = "traceparent"  # the W3C header: the span of the caller
KEPT: Final = 4096
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def trace_id(request: str) -> int:
    """The id of a request as that of its trace: itself where it is 32 hexadecimal digits."""
    if len(request) == 32:
        try:
            return int(request, 16) or 1
        except ValueError:
            pass
    return int.from_bytes(hashlib.blake2b(request.encode(), digest_size=16).digest()) or 1


class Tracing:
    """The spans of one member."""

    def __init__(self, service: str, member: str) -> None:
        self.spans: deque[ReadableSpan] = deque(maxlen=KEPT)
        provider = TracerProvider(
            resource=Resource({"service.name": service, "service.instance.id": member}), shutdown_on_exit=False
        )
        if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        else:
            provider.add_span_processor(_Kept(self.spans))
        self._provider, self._tracer = provider, provider.get_tracer(service)

    @contextmanager
    def span(
        self, name: str, request: str, *, parent: str | None = None, server: bool = False, **attributes: str | int
    ) -> Iterator[Span]:
        """A span of the trace of `request`; `parent` is the header of the caller, or `header` of a span here."""
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(_parent(trace_id(request), parent))),
            kind=SpanKind.SERVER if server else SpanKind.CLIENT,
            attributes=attributes,
        )
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            span.end()

    def of(self, request: str) -> Sequence[Mapping[str, object]]:
        """What is kept of one request, for people and tests."""
        wanted = trace_id(request)
        return [
            {
                "name": span.name,
                "span": f"{span.context.span_id:016x}",
                "parent": f"{span.parent.span_id:016x}" if span.parent else None,
                "seconds": ((span.end_time or 0) - (span.start_time or 0)) / 1e9,
                **(span.attributes or {}),
            }
            for span in self.spans
            if span.context.trace_id == wanted
        ]

    def close(self) -> None:
        """Send what waits to be sent."""
        self._provider.shutdown()


def header(span: Span) -> str:
    """The span as `traceparent`, for the next hop."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def _parent(trace: int, header: str | None) -> SpanContext:
    # A trace needs some parent to take its id from; a request from outside has one that nobody has seen.
    span = trace & 0xFFFFFFFFFFFFFFFF or 1
    if header is not None and header.count("-") == 3:
        with suppress(ValueError):
            span = int(header.split("-")[2], 16) or 1
    return SpanContext(trace_id=trace, span_id=span, is_remote=True, trace_flags=_SAMPLED)


class _Kept(SpanProcessor):
    """Keeps the newest spans."""

    def __init__(self, spans: deque[ReadableSpan]) -> None:
        self._spans = spans

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)
