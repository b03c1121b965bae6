"""Traces, which follow a transaction from the API request through the worker to the merchant.

Tracing is off until a URL for the spans is set. OpenTelemetry is an optional dependency, which is
imported only if tracing is on. A span is identified by the value of the header `traceparent`, as
defined by W3C Trace Context (https://www.w3.org/TR/trace-context/). Spans contain no texts of
exceptions, because these can contain personal data.
"""

import functools
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import structlog

from manilla.kit import time_limits
from manilla.kit.errors import Refusal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

HEADER = "traceparent"
PATH = "/v1/traces"  # the path of OTLP/HTTP, which follows the collector's URL
_FORMAT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})-(?P<trace_id>(?!0{32})[0-9a-f]{32})"
    r"-(?P<span_id>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?"
)


class TracingNotInstalled(Refusal):
    message = (
        "MANILLA_OTLP_URL is set, but OpenTelemetry is not installed: install "
        "requirements-tracing.txt instead of requirements.txt, or remove the variable."
    )


class SpanKind(StrEnum):
    """The names of OpenTelemetry's kinds of spans."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    CONSUMER = "CONSUMER"
    INTERNAL = "INTERNAL"


_tracer: "Tracer | None" = None  # None if tracing is off
_provider: "TracerProvider | None" = None
_NO_SPAN: "AbstractContextManager[Span | None]" = nullcontext()


@contextmanager
def export(program: str, url: str | None) -> Iterator[None]:
    """Sends the spans of this block to the OTLP collector at the URL. None turns tracing off."""
    global _tracer, _provider  # noqa: PLW0603 - a process has one tracer
    if url is None:
        yield
        return
    try:
        import requests
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingNotInstalled from error
    resource = Resource.create({"service.name": f"manilla-{program}"})
    seconds = time_limits.current.trace_export_seconds
    provider = _provider = TracerProvider(resource=resource)
    # The exporter does not close the connections of its session.
    with requests.Session() as session:
        exporter = OTLPSpanExporter(endpoint=url + PATH, timeout=seconds, session=session)
        # A thread sends the spans. If the collector is too slow, spans are dropped.
        provider.add_span_processor(BatchSpanProcessor(exporter))
        _tracer = provider.get_tracer("manilla")
        try:
            yield
        finally:
            _tracer = _provider = None
            provider.shutdown()


def flush() -> None:
    """Sends the spans that have ended. A signal may kill the process before `export` ends."""
    if _provider is not None:
        _provider.force_flush()


def is_on() -> bool:
    return _tracer is not None


def current() -> str | None:
    """Returns the `traceparent` of the current span, or None outside of a trace."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def begin(
    name: str, parent: str | None, kind: SpanKind = SpanKind.INTERNAL
) -> "AbstractContextManager[Span | None]":
    """Starts a span of the parent's trace, or of a new trace if there is no valid parent."""
    return _NO_SPAN if _tracer is None else _span(_tracer, name, kind, _remote(parent))


def step(name: str, kind: SpanKind = SpanKind.INTERNAL) -> "AbstractContextManager[Span | None]":
    """Starts a span within the current span. Does nothing outside of a trace."""
    if _tracer is None or current() is None:
        return _NO_SPAN
    return _span(_tracer, name, kind, None)


def as_step(
    name: str,
) -> Callable[
    [Callable[Parameters, Coroutine[Any, Any, Result]]],
    Callable[Parameters, Coroutine[Any, Any, Result]],
]:
    """Decorates an async function whose calls are steps of a trace."""

    def decorate(
        function: Callable[Parameters, Coroutine[Any, Any, Result]],
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
        async def run(*given: Parameters.args, **named: Parameters.kwargs) -> Result:
            with step(name):
                return await function(*given, **named)

        @functools.wraps(function)
        def call(
            *given: Parameters.args, **named: Parameters.kwargs
        ) -> Coroutine[Any, Any, Result]:
            return function(*given, **named) if _tracer is None else run(*given, **named)

        return call

    return decorate


def parse(traceparent: str | None) -> re.Match[str] | None:
    """Returns the parts of a `traceparent`, or None if it is missing or malformed.

    Only a later version of the format than 00 can have more fields after the flags.
    """
    parts = _FORMAT.fullmatch(traceparent or "")
    return None if parts is None or (parts["version"] == "00" and parts["rest"]) else parts


def _remote(traceparent: str | None) -> "Context":
    """Returns the context of a span in another process, or an empty context."""
    from opentelemetry import trace
    from opentelemetry.context import Context

    parts = parse(traceparent)
    if parts is None:
        return Context()
    parent = trace.SpanContext(
        trace_id=int(parts["trace_id"], 16),
        span_id=int(parts["span_id"], 16),
        is_remote=True,
        # Only the flag `sampled` is passed on: the meaning of other flags may not be known here.
        trace_flags=trace.TraceFlags(int(parts["flags"], 16) & trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


@contextmanager
def _span(
    tracer: "Tracer", name: str, kind: SpanKind, context: "Context | None"
) -> "Iterator[Span]":
    from opentelemetry import trace

    with tracer.start_as_current_span(
        name,
        context,
        trace.SpanKind[kind],
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        trace_id = f"{span.get_span_context().trace_id:032x}"
        try:
            with structlog.contextvars.bound_contextvars(trace_id=trace_id):
                yield span
        except BaseException as error:
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise
