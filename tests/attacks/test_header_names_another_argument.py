"""The attacker repeats one argument in the headers, where proxies look, and sends the tool another in the body.

A server on stdio sees no headers, so the gateway in front of it compares them (2026-07-28, Streamable HTTP, Server
Behavior for Custom Headers).
"""

import base64
import json
import sys

import pytest

from support.gateway import HARMLESS, serving
from support.hostile import connect, head, post, read_all, status_of
from support.table import rows

VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
MISMATCH = (400, -32020, "header_mismatch")

# Keeps every call; `marks` names the marked arguments. A file `moved` gives them other headers, as a new version would.
SERVER = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "tools/list":
        name = "Zone" if (folder / "moved").exists() else "Region"
        nested = {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "Dry-Run"}}}
        marks = {"region": {"type": "string", "x-mcp-header": name}, "count": {"type": "integer", "x-mcp-header": "Count"}}
        schema = {"type": "object", "properties": {**marks, "nested": nested, "free": {"type": "string"}}}
        hint = {"readOnlyHint": True}
        tools = [{"name": "deploy", "description": "A tool.", "inputSchema": schema, "annotations": hint}]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    elif message["method"] == "tools/call":
        with (folder / "calls").open("a") as calls:
            calls.write(json.dumps(message["params"]["arguments"]) + "\\n")
        result = {"content": [], "isError": False, "resultType": "complete"}
    elif message["method"] == "initialize":
        about = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def wrapped(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class Site:
    def __init__(self, gateway, folder):
        self.port, self.folder = gateway.port, folder

    def asked(self, method, params, headers):
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": META}}).encode()
        routing = {"mcp-protocol-version": VERSION, "mcp-method": method}
        routing |= {"mcp-name": params["name"]} if "name" in params else {}
        return post(self.port, body, {**routing, **headers})

    def call(self, arguments, headers):
        return self.asked("tools/call", {"name": "deploy", "arguments": arguments}, headers)

    @property
    def calls(self):
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def refused(self, arguments, headers):
        before = self.calls
        got = self.call(arguments, headers)
        assert self.calls == before
        assert got.json["id"] == 7
        return got.status, got.error["code"], got.reason


def running(folder, **more):
    command = [sys.executable, "-c", SERVER, str(folder)]
    return serving(folder, {"one": {"command": command, "trust": HARMLESS}}, **more)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("headers")
    with running(folder) as gateway:
        yield Site(gateway, folder)


REGION = {"region": "eu-1"}
UTF8 = {"region": "Zürich"}
LIES = [
    (REGION, {"mcp-param-region": "us-1"}),
    (REGION, {"mcp-param-region": "EU-1"}),
    (REGION, {"mcp-param-region": ""}),
    (REGION, {"mcp-param-region": wrapped("us-1")}),
    (REGION, {"mcp-param-region": wrapped("eu-1") + "x"}),
    (REGION, {"mcp-param-region": "=?base64?ZXUtMQ?="}),
    (REGION, {"mcp-param-region": "=?base64?!!!!?="}),
    (REGION, {"mcp-param-region": "=?BASE64?ZXUtMQ==?="}),
    # The header is missing, or the argument is.
    (REGION, {}),
    (REGION, {"mcp-param-zone": "eu-1"}),
    ({}, {"mcp-param-region": "eu-1"}),
    ({"region": None}, {"mcp-param-region": "null"}),
    ({"region": ["eu-1"]}, {"mcp-param-region": "eu-1"}),
    # What no header may hold, even where the body says the same.
    (UTF8, {"mcp-param-region": "Zürich".encode()}),
    (UTF8, {"mcp-param-region": "Zürich".encode("latin-1")}),
    # Numbers and truth are compared as what they are.
    ({"count": 42}, {"mcp-param-count": "43"}),
    ({"count": 42}, {"mcp-param-count": "42.5"}),
    ({"count": 42}, {"mcp-param-count": "4.2e1"}),
    ({"count": 42}, {"mcp-param-count": "0x2a"}),
    ({"count": 1}, {"mcp-param-count": "true"}),
    ({"count": True}, {"mcp-param-count": "1"}),
    ({"count": "42"}, {"mcp-param-count": "42.0"}),
    ({"nested": {"on": True}}, {"mcp-param-dry-run": "false"}),
    ({"nested": {"on": True}}, {"mcp-param-dry-run": "True"}),
    ({"nested": {"on": False}}, {}),
    ({"on": True}, {"mcp-param-dry-run": "true"}),
]


@rows("lie", LIES)
def test_a_header_that_says_something_else_than_the_argument(site, lie):
    assert site.refused(*lie) == MISMATCH


TRUTHS = [
    (REGION, {"Mcp-Param-Region": "eu-1"}),
    (REGION, {"mcp-param-region": " eu-1 "}),
    (REGION, {"mcp-param-region": wrapped("eu-1")}),
    (UTF8, {"mcp-param-region": wrapped("Zürich")}),
    ({"region": " padded "}, {"mcp-param-region": wrapped(" padded ")}),
    ({"region": "=?base64?x?="}, {"mcp-param-region": wrapped("=?base64?x?=")}),
    ({"region": ""}, {"mcp-param-region": ""}),
    ({"region": None}, {}),
    ({"free": "x"}, {"mcp-param-free": "y", "mcp-param-else": "\N{NO-BREAK SPACE}".encode("latin-1")}),
    ({"count": 42}, {"mcp-param-count": "42"}),
    ({"count": 42}, {"mcp-param-count": "42.0"}),
    ({"count": -7}, {"mcp-param-count": "-7"}),
    ({"nested": {"on": True}}, {"mcp-param-dry-run": "true"}),
    ({"nested": {"on": False}}, {"mcp-param-dry-run": "false"}),
]


@rows("truth", TRUTHS)
def test_what_agrees_passes(site, truth):
    before = len(site.calls)
    got = site.call(*truth)
    assert got.status == 200, got
    assert site.calls[before:] == [truth[0]]


def test_the_same_header_twice(site):
    before = site.calls
    params = {"name": "deploy", "arguments": REGION, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
    routing = (f"mcp-protocol-version: {VERSION}", "mcp-method: tools/call", "mcp-name: deploy", "connection: close")
    for values in (("eu-1", "us-1"), ("us-1", "eu-1"), ("eu-1", "eu-1")):
        with connect(site.port) as connection:
            lines = [f"Mcp-Param-Region: {value}" for value in values]
            connection.sendall(head(len(body), *routing, *lines) + body)
            got = read_all(connection)
        assert status_of(got) == 400
        assert b"-32020" in got
    assert site.calls == before


@rows("off", [{}, {"pinning": "the gateway compares the headers all the same"}])
def test_the_first_call_of_a_process_that_nobody_has_listed(tmp_path, off):
    """The gateway lists the tools itself before the call leaves."""
    with running(tmp_path, off=off, **({} if off else {"reviewed": True})) as gateway:
        one = Site(gateway, tmp_path)
        assert one.refused(REGION, {"mcp-param-region": "us-1"}) == MISMATCH
        assert one.refused(REGION, {}) == MISMATCH
        assert one.call(REGION, {"mcp-param-region": "eu-1"}).status == 200


def test_the_list_that_passed_last_counts(tmp_path):
    with running(tmp_path, off={"pinning": "a change needs no review here"}) as gateway:
        one = Site(gateway, tmp_path)
        assert one.call(REGION, {"mcp-param-region": "eu-1"}).status == 200
        (tmp_path / "moved").touch()
        one.asked("tools/list", {}, {})
        assert one.refused(REGION, {"mcp-param-zone": "us-1"}) == MISMATCH
        assert one.call(REGION, {"mcp-param-zone": "eu-1"}).status == 200


def test_no_stateless_version_has_initialize(site):
    got = site.asked("initialize", {"protocolVersion": VERSION, "capabilities": {}}, {})
    assert (got.status, got.error["code"], got.reason) == (404, -32601, "method_not_found")
