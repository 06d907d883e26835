"""Lists made to fill the gateway: a million entries, another list on every connection, another name every time."""

import json
import re
from pathlib import Path

import pytest

from support.gateway import serving
from support.hostile import answer, hostile_server, post
from support.pinning import PINNING, pinned_site
from support.raw_clients import Way, reason_of, until
from support.shifting import tool
from support.table import rows

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
MIB = 1024 * 1024


def memory(pid):
    """What a process holds, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found[1]) // 1024


@pytest.mark.verify
@rows("entries", ["0," * 2_000_000 + "0", "{}," * 6_000_000 + "{}"], ids=["4 MB", "18 MB"])
@rows("way", [Way("serve", "legacy", "web"), Way("serve", "modern", "pipe")], ids=lambda way: way.text)
def test_millions_of_entries_are_not_read(tmp_path, way, entries):
    with pinned_site(tmp_path) as site:
        server = site.server(way)
        server.fresh(tool("read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve(way.server, "read")
        visitor.until_open("read")
        before = server.called
        result = f'{{"resultType":"complete","_meta":"$META","tools":[{entries}]}}'
        server.be(answers={"tools/list": ['{"jsonrpc":"2.0","id":"$ID","result":' + result + "}"]})
        for _ in range(3):
            visitor.until_closed("read", "toolset_too_large")
        assert server.called == before
        # Such a list keeps the gateway from its store for a moment, and then it says so.
        answers = []
        until(lambda: answers.append(visitor.answer("tools/list", {})) or "result" in answers[-1], "it lists again")
        assert [one["name"] for one in answers[-1]["result"]["tools"]] == ["callgate_pending"]
        asked = {"name": "callgate_pending", "arguments": {}}
        until(lambda: "can be used: the server" in str(visitor.answer("tools/call", asked)), "it is told why")
        # Read one by one, they would take gigabytes.
        assert memory(site.gateway.process.pid) < 900
        server.be(answers=None)
        visitor.until_open("read")


@pytest.mark.verify
def test_another_list_on_every_connection(tmp_path):
    """Four hundred sessions with two megabytes each, that nobody ends."""

    def behave(peer, request):
        method = (request.message or {}).get("method")
        if method == "tools/list":
            text = f"{request.headers['mcp-session-id']} " + "x" * 60_000
            tools = [{"name": f"t{n}", "description": text, "inputSchema": {}} for n in range(32)]
            result = {"tools": tools}
        else:
            result = HELLO
        body = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": result}).encode()
        peer.send(answer(body))

    with (
        hostile_server({"": behave}) as server,
        serving(tmp_path, {"web": {"url": server.url}}, reviewed=False, pinning=PINNING) as gate,
    ):
        asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
        for number in range(400):
            got = post(gate.port, asked, {"mcp-session-id": f"s-{number}"})
            assert [one["name"] for one in got.json["result"]["tools"]] == ["callgate_pending"], reason_of(got.json)
        assert memory(gate.process.pid) < 700
