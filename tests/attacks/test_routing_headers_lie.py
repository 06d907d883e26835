"""The attacker names one tool in the headers, where proxies look, and calls another in the body."""

import base64
import json

from support.hostile import call_message, head, status_of
from support.table import rows

CALL = call_message("rm")
VERSION = "2026-07-28"
HEADERS = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "rm"}


def modern(version=VERSION, name="rm"):
    meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": name, "arguments": {}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def wrapped(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@rows(
    "headers",
    [
        {"mcp-name": "ls"},
        {"mcp-name": ""},
        {"mcp-name": "RM"},
        {"mcp-name": "rm, ls"},
        {"mcp-name": wrapped("ls")},
        {"mcp-name": wrapped("rm") + "x"},
        {"mcp-name": "=?base64?cm0?="},
        {"mcp-name": "=?base64?cm1=?="},
        {"mcp-name": "=?base64?cm0=\N{NO-BREAK SPACE}?="},
        {"mcp-name": "=?base64?/w==?="},
        {"mcp-name": "=?BASE64?cm0=?="},
        {"mcp-method": "tools/list"},
        {"mcp-method": "TOOLS/CALL"},
        {"mcp-method": "tools/call, tools/list"},
        {"mcp-method": ""},
    ],
)
@rows("era", ["modern", "handshake"])
def test_a_header_that_says_something_else_than_the_body(target, headers, era):
    headers = {name: value.encode("latin-1") for name, value in headers.items()}
    sent = {**HEADERS, **headers} if era == "modern" else headers
    assert target.reasons(modern() if era == "modern" else CALL, sent) == (400, -32020, "header_mismatch")


def test_a_version_that_is_not_the_bodys(target):
    sent = HEADERS | {"mcp-protocol-version": "2026-07-29"}
    assert target.reasons(modern(), sent) == (400, -32020, "header_mismatch")


@rows("absent", ["mcp-method", "mcp-name"])
def test_a_header_that_is_missing_in_the_modern_era(target, absent):
    sent = {name: value for name, value in HEADERS.items() if name != absent}
    assert target.reasons(modern(), sent) == (400, -32020, "header_mismatch")


@rows("name", ["mcp-name", "mcp-method", "mcp-protocol-version"])
def test_the_same_header_twice(target, name):
    body = modern()
    lines = [f"{key}: {value}" for key, value in HEADERS.items()]
    for value in (HEADERS[name], "other"):
        got, bodies = target.raw(head(len(body), "connection: close", *lines, f"{name}: {value}") + body)
        assert status_of(got) == 400
        assert b"-32020" in got
        assert bodies == []


def test_a_header_on_a_message_without_a_method(target):
    """An answer is no request: a header that calls it one would let it pass where only requests are counted."""
    target.refused(b'{"jsonrpc":"2.0","id":1,"result":{}}', {"mcp-method": "tools/call"})


def test_what_agrees_passes(target):
    for name in ("rm", wrapped("rm")):
        body = modern()
        lines = [f"{key}: {value}" for key, value in (HEADERS | {"mcp-name": name}).items()]
        got, bodies = target.raw(head(len(body), "connection: close", *lines) + body)
        assert status_of(got) == 200
        assert bodies == [body]
