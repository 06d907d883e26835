"""A server on stdio that does not read, or does not answer: bounded by the same patience as any other."""

import json
import sys

import pytest

from support.gateway import serving
from support.hostile import post
from support.table import rows

DEAF = [sys.executable, "-c", "import time; time.sleep(600)"]
SILENT = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "x"}


def modern_call(text, rpc_id):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "x", "arguments": {"text": text}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params}).encode()


@rows(
    ("command", "size"),
    [
        pytest.param(SILENT, 10, id="silent-small"),
        pytest.param(SILENT, 4_000_000, id="silent-large"),
        pytest.param(DEAF, 10, id="deaf-small"),
        pytest.param(DEAF, 4_000_000, id="deaf-large"),
    ],
)
def test_a_server_that_does_not_answer_times_out(tmp_path, command, size):
    """A large message does not fit into the pipe: writing it must not outlast the patience either."""
    with serving(tmp_path, {"one": {"command": command, "timeout_seconds": 1}}) as gateway:
        for number in range(2):
            got = post(gateway.port, modern_call("x" * size, number), MODERN, timeout=8)
            assert (got.status, got.reason) == (504, "upstream_timeout")
            assert got.json["id"] == number
