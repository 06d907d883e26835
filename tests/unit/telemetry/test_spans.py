import asyncio
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callgate.errors import ConfigError, Reason
from callgate.telemetry import spans
from support.table import rows

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    tracer = spans.OtelTracer(exporter, batch=False)
    yield tracer
    tracer.shutdown()


def only(exporter):
    (span,) = exporter.get_finished_spans()
    return span


def test_off_by_default():
    tracer = spans.tracer(environ={})
    assert tracer.enabled is False
    with tracer.call("tools/call", server="files", tool="read") as span:
        span.allowed()
        span.refused(Reason.PARSE_ERROR)
        assert span.headers() == {}
    tracer.shutdown()


def test_off_when_opentelemetry_is_disabled_by_its_own_variable():
    assert not spans.tracer("http://127.0.0.1:1", environ={"OTEL_SDK_DISABLED": "true"}).enabled


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError) as caught:
        spans.tracer("http://127.0.0.1:1", environ={})
    assert "pip install 'callgate[otel]'" in caught.value.advice


def test_a_span_has_the_names_of_the_call_and_nothing_it_carries(tracer, exporter):
    meta = {"secret": "hunter2"}
    with tracer.call(
        "tools/call", server="files", tool="read", transport="http", protocol="2026-07-28", session="s1", meta=meta
    ) as span:
        span.allowed()
    done = only(exporter)
    assert done.name == "tools/call read"
    assert {name: done.attributes[name] for name in done.attributes if name != "callgate.session"} == {
        "rpc.system": "jsonrpc",
        "rpc.service": "files",
        "rpc.method": "tools/call",
        "mcp.method.name": "tools/call",
        "mcp.tool.name": "read",
        "gen_ai.tool.name": "read",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "callgate.verdict": "pass",
    }
    assert "s1" not in done.attributes["callgate.session"]
    assert "hunter2" not in done.to_json()
    assert done.resource.attributes["service.name"] == "callgate"


def test_a_refusal_is_an_error_with_its_reason(tracer, exporter):
    with tracer.call("tools/call", server="files") as span:
        span.refused(Reason.BLOCKED_BY_POLICY)
    done = only(exporter)
    assert not done.status.is_ok
    assert done.attributes["error.type"] == "blocked_by_policy"
    assert done.attributes["rpc.jsonrpc.error_code"] == Reason.BLOCKED_BY_POLICY.code


def test_the_text_of_an_exception_stays_out(tracer, exporter):
    with pytest.raises(ValueError, match="hunter2"), tracer.call("tools/call", server="files"):
        raise ValueError("hunter2")
    done = only(exporter)
    assert not done.status.is_ok
    assert done.attributes["error.type"] == "ValueError"
    assert "hunter2" not in done.to_json()


@rows(
    ("headers", "meta"),
    [
        ({"traceparent": TRACEPARENT}, {}),
        ({}, {"traceparent": TRACEPARENT}),
        ({"traceparent": OTHER}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT}, {"traceparent": 5}),
    ],
)
def test_the_callers_trace_goes_on(tracer, exporter, headers, meta):
    exporter.clear()
    with tracer.call("tools/call", server="files", headers=headers, meta=meta) as span:
        sent = span.headers()["traceparent"]
    done = only(exporter)
    assert f"{done.context.trace_id:032x}" == TRACE
    assert f"{done.parent.span_id:016x}" == PARENT
    assert sent == f"00-{TRACE}-{done.context.span_id:016x}-01"


def test_tracestate_is_passed_on(tracer):
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    with tracer.call("tools/call", server="files", headers=headers) as span:
        assert span.headers()["tracestate"] == "vendor=1"


@rows("bad", ["", "x", "00-0-0-0", TRACEPARENT + "x" * 1000, f"ff-{TRACE}-{PARENT}-01"])
def test_a_broken_traceparent_begins_a_new_trace(tracer, exporter, bad):
    exporter.clear()
    with tracer.call("tools/call", server="files", headers={"traceparent": bad}):
        pass
    assert only(exporter).parent is None


def test_names_are_bounded(tracer, exporter):
    with tracer.call("m" * 10_000, server="files", tool="t" * 10_000):
        pass
    assert len(only(exporter).to_json()) < 4000


async def test_calls_side_by_side_do_not_become_each_others_parents(tracer, exporter):
    both = asyncio.Barrier(2)

    async def one(name):
        with tracer.call("tools/call", server="files", tool=name):
            await both.wait()

    await asyncio.gather(one("a"), one("b"))
    assert [span.parent for span in exporter.get_finished_spans()] == [None, None]


@pytest.fixture
def collector():
    """An OTLP endpoint that keeps what it is sent."""
    received = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


@rows("way", ["config", "base", "traces"])
def test_spans_arrive_at_the_endpoint(collector, way):
    address, received = collector
    received.clear()
    environ = {
        "config": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        "base": {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{address}/"},
        "traces": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{address}/v1/traces"},
    }[way]
    tracer = spans.tracer(address if way == "config" else None, environ=environ)
    assert tracer.enabled
    with tracer.call("tools/call", server="files", tool="read") as span:
        span.allowed()
    tracer.shutdown()
    ((path, body),) = received
    assert path == "/v1/traces"
    sent = ExportTraceServiceRequest.FromString(body)
    assert sent.resource_spans[0].scope_spans[0].spans[0].name == "tools/call read"
