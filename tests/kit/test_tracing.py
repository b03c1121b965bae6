"""Spans are sent to a collector, and `traceparent` is parsed as W3C Trace Context requires."""

import sys

import msgspec
import pytest
import structlog

from manilla.kit import tracing
from manilla.kit.http_client.client import HttpClient
from manilla.kit.logs import RequestLine
from manilla.kit.tracing import TracingNotInstalled
from tests.kit.http_server import RawServer, serving
from tests.support.tracing_collector import collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "traceparent",
    [
        PARENT,
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-ff",
        f"cc-{TRACE}-{SPAN}-01",  # a later version of the format
        f"cc-{TRACE}-{SPAN}-01-what-the-future-brings",
    ],
)
def test_a_valid_traceparent_is_accepted(traceparent: str) -> None:
    parts = tracing.parse(traceparent)
    assert parts is not None
    assert (parts["trace_id"], parts["span_id"]) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        f"{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",  # a forbidden version
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",  # version 00 has four fields
        f"cc-{TRACE}-{SPAN}-01more",
        f" {PARENT}",
        f"{PARENT}\n",
        f"{PARENT},{PARENT}",  # a repeated header
        PARENT.replace("a", "à"),
    ],
)
def test_a_malformed_traceparent_is_rejected(traceparent: str | None) -> None:
    assert tracing.parse(traceparent) is None


def test_spans_form_a_tree_below_the_remote_parent() -> None:
    with (
        collecting() as collector,
        tracing.export("tests", collector.url),
        tracing.begin("request", PARENT),
        tracing.step("settle"),
    ):
        assert structlog.contextvars.get_contextvars()["trace_id"] == TRACE
    assert structlog.contextvars.get_contextvars().get("trace_id") is None
    [request], [settle] = collector.named("request"), collector.named("settle")
    assert (request.trace_id, request.parent_id) == (TRACE, SPAN)
    assert (settle.trace_id, settle.parent_id) == (TRACE, request.span_id)
    assert {span.service for span in collector.spans} == {"manilla-tests"}


@pytest.mark.parametrize("parent", [None, f"00-{'0' * 32}-{SPAN}-01"])
def test_a_span_without_a_valid_parent_begins_a_trace(parent: str | None) -> None:
    with (
        collecting() as collector,
        tracing.export("tests", collector.url),
        tracing.begin("outer", PARENT),
        tracing.begin("inner", parent),
    ):
        pass
    [inner] = collector.named("inner")
    assert inner.trace_id != TRACE
    assert inner.parent_id == ""


def test_a_trace_that_the_caller_does_not_sample_is_passed_on_and_not_sent() -> None:
    with (
        collecting() as collector,
        tracing.export("tests", collector.url),
        tracing.begin("request", f"00-{TRACE}-{SPAN}-00"),
    ):
        passed_on = tracing.current()
    assert passed_on is not None
    assert passed_on.startswith(f"00-{TRACE}-")
    assert passed_on.endswith("-00")
    assert collector.spans == []


def test_a_span_contains_the_type_of_an_error_and_not_its_text() -> None:
    with (
        collecting() as collector,
        tracing.export("tests", collector.url),
        pytest.raises(ValueError, match="BVN"),
        tracing.begin("request", None),
    ):
        raise ValueError("BVN 22222222222")
    [span] = collector.spans
    assert span.status == "ValueError"


async def test_a_traced_function_is_a_step_only_within_a_trace() -> None:
    @tracing.as_step("settle")
    async def settle(amount: int) -> int:
        return amount

    with collecting() as collector:
        assert await settle(1) == 1
        with tracing.export("tests", collector.url):
            assert await settle(2) == 2
            with tracing.begin("job", None):
                assert await settle(amount=3) == 3
    assert sorted(span.name for span in collector.spans) == ["job", "settle"]


async def test_a_call_carries_its_span_in_the_header() -> None:
    with collecting() as collector:
        async with serving() as server:
            with tracing.export("tests", collector.url), tracing.begin("job", PARENT):
                await _call(server)
    [call] = collector.named(f"GET 127.0.0.1:{server.port}")
    assert call.has(server.requests[0].header("traceparent"))
    assert call.trace_id == TRACE
    assert call.attributes == {"http.response.status_code": 200}


async def test_a_call_outside_of_a_trace_has_no_header() -> None:
    with collecting() as collector:
        async with serving() as server:
            await _call(server)
            with tracing.export("tests", collector.url):
                await _call(server)
    assert [request.header("traceparent") for request in server.requests] == [None, None]
    assert collector.spans == []


async def _call(server: RawServer) -> None:
    async with HttpClient(connections=1, keepalive_seconds=1) as client:
        await client.request("GET", server.url, body_max=100)


def test_tracing_that_is_off_does_nothing() -> None:
    with tracing.export("tests", None):
        assert not tracing.is_on()
        with tracing.begin("request", PARENT) as span, tracing.step("settle") as inner:
            assert (span, inner, tracing.current()) == (None, None, None)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(TracingNotInstalled, match=r"requirements-tracing\.txt"),
        tracing.export("tests", "http://127.0.0.1:4318"),
    ):
        pass


def test_the_log_line_of_a_request_has_the_trace_only_if_tracing_is_on() -> None:
    fields = dict.fromkeys(RequestLine.__struct_fields__) | {"trace_id": msgspec.UNSET}
    line = RequestLine(**fields)  # type: ignore[arg-type]
    assert b"trace" not in msgspec.json.encode(line)
    with_trace = msgspec.structs.replace(line, trace_id=TRACE)
    assert f'"trace_id":"{TRACE}"'.encode() in msgspec.json.encode(with_trace)
