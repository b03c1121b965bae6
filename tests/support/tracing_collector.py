"""An OpenTelemetry collector, which keeps the spans that it receives with OTLP over HTTP."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from manilla.kit import tracing


class CollectedSpan(msgspec.Struct, frozen=True):
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str  # empty if the span is the first of its trace
    attributes: dict[str, str | int]
    status: str  # the text of an error

    def has(self, traceparent: str | None) -> bool:
        """Whether this is the span of a `traceparent`. A collector does not receive the flags."""
        return (traceparent or "").startswith(f"00-{self.trace_id}-{self.span_id}-")


class Collector:
    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, path: str, body: bytes) -> None:
        assert path == tracing.PATH
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {each.key: each.value.string_value for each in sent.resource.attributes}
            for scope in sent.scope_spans:
                for span in scope.spans:
                    attributes = {
                        each.key: each.value.string_value or each.value.int_value
                        for each in span.attributes
                    }
                    self.spans.append(
                        CollectedSpan(
                            service=resource["service.name"],
                            name=span.name,
                            trace_id=span.trace_id.hex(),
                            span_id=span.span_id.hex(),
                            parent_id=span.parent_span_id.hex(),
                            attributes=attributes,
                            status=span.status.message,
                        )
                    )

    def named(self, name: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name == name]


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Runs a collector in a thread, because a process that stops waits until its spans are sent."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.add(self.path, body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
