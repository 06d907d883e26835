"""OpenTelemetry spans: a real exporter, a receiver that reads what it sends, and the server's view of the trace."""

import gzip
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.gateway import serving

LOOKUP = {"name": "lookup", "description": "Looks up.", "inputSchema": {"type": "object"}}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Peer(ThreadingHTTPServer):
    """Both the collector and the MCP server: it keeps what it gets."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.traceparents = []
        self.spans = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.server.spans.extend(scope.spans)
            reply = b""
        else:
            asked = json.loads(body)
            if asked["method"] == "tools/call":
                self.server.traceparents.append(self.headers.get("traceparent"))
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "content": [], "tools": [LOOKUP]}
            reply = (
                json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode() if "id" in asked else b""
            )
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_args):
        pass


@pytest.fixture
def peer():
    server = Peer()
    yield server
    server.shutdown()
    server.server_close()


def call(url, tool):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"k": "SECRET"}}}
    headers = {"content-type": "application/json", "accept": "application/json", "traceparent": PARENT}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


def test_a_call_is_a_span_between_the_clients_and_the_servers(peer, tmp_path):
    with serving(tmp_path, {"peer": {"url": f"{peer.url}/mcp"}}, telemetry={"otlp_endpoint": peer.url}) as gateway:
        assert "result" in call(gateway.url("peer"), "lookup")
    # The reviewer asked for the list.
    (span,) = [one for one in peer.spans if one.name.startswith("tools/call")]
    attributes = {item.key: item.value.string_value for item in span.attributes}
    assert span.name == "tools/call lookup"
    assert span.trace_id.hex() == PARENT.split("-")[1]
    assert span.parent_span_id.hex() == PARENT.split("-")[2]
    assert attributes["mcp.tool.name"] == "lookup"
    assert attributes["callgate.verdict"] == "pass"
    assert "SECRET" not in str(span)
    (seen,) = peer.traceparents
    assert seen.split("-")[1:3] == [PARENT.split("-")[1], span.span_id.hex()]


def test_a_refusal_is_an_error_span(peer, tmp_path):
    with serving(
        tmp_path,
        {"peer": {"url": f"{peer.url}/mcp"}},
        telemetry={"otlp_endpoint": peer.url},
        policy={"block_all": True},
        reviewed=False,
    ) as gateway:
        with pytest.raises(urllib.error.HTTPError) as caught:
            call(gateway.url("peer"), "lookup")
        with caught.value:
            assert caught.value.code == 403
    (span,) = peer.spans
    attributes = {item.key: item.value.string_value for item in span.attributes}
    assert attributes["callgate.verdict"] == "refuse"
    assert attributes["error.type"] == "blocked_by_policy"
    assert peer.traceparents == []


def test_without_an_exporter_the_clients_trace_passes_untouched(peer, tmp_path):
    with serving(tmp_path, {"peer": {"url": f"{peer.url}/mcp"}}) as gateway:
        call(gateway.url("peer"), "lookup")
    assert peer.traceparents == [PARENT]
    assert peer.spans == []
