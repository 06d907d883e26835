"""The `mcp` SDK's client, signing every request, through a gateway that lets only its agent in; in both eras."""

import re
import signal
import subprocess
import threading

import pytest
from cryptography.hazmat.primitives import serialization
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from callgate.agents.model import WELL_KNOWN
from callgate.sdk import sign
from support.agent_directories import _contexts
from support.agents_gate import INSIDE, known, web
from support.gateway import CALLGATE, serving
from support.raw import ask
from support.registry import requirement

MODES = ("legacy", LATEST_MODERN_VERSION)


@pytest.fixture(scope="module")
def key():
    return sign.AgentKey.generate()


@pytest.fixture(scope="module")
def gate(tmp_path_factory, everything, key):
    agents = {
        "mode": "required",
        "known": {"friend": known(key.signer(), allow_tools=["echo", "add"])},
        "signatures": {"discovery": "ignore"},
    }
    with serving(tmp_path_factory.mktemp("gate"), {"web": {"url": everything.url}}, agents=agents) as gateway:
        yield gateway


def text(result):
    return result.content[0].text


@requirement("WB-001", "WB-041", "WB-079")
@pytest.mark.parametrize("mode", MODES)
async def test_a_signed_client_is_let_in_and_held_to_its_tools(gate, key, mode):
    transport = sign.mcp_transport(gate.url("web"), key.signer("https://agent.example"))
    async with Client(transport, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert "echo" in tools
        assert "hello" in text(await client.call_tool("echo", {"text": "hello"}))
        forbidden = next(name for name in tools if name not in ("echo", "add"))
        with pytest.raises(MCPError) as refused:
            await client.call_tool(forbidden, {})
        assert refused.value.error.data["reason"] == "tool_denied"
        # A refusal ends nothing.
        assert "again" in text(await client.call_tool("echo", {"text": "again"}))


@requirement("WB-057", "WB-084")
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_does_not_sign_or_signs_with_another_key_is_not_let_in(gate, mode):
    stranger = sign.AgentKey.generate().signer()
    for server in (gate.url("web"), sign.mcp_transport(gate.url("web"), stranger)):
        with pytest.raises(BaseExceptionGroup) as refused:
            async with Client(server, mode=mode):
                pass
        assert refused.group_contains(Exception)
    reasons = {event["reason"] for event in gate.events("caller refused")}
    assert {"missing_signature_headers", "unknown_keyid"} <= reasons


@pytest.mark.slow
@requirement("WB-007", "WB-092")
def test_from_keygen_to_a_call_with_commands_alone(tmp_path, everything):
    """Make a key, serve its directory, sign, be let in: the way an operator of an agent goes it."""
    subprocess.run([CALLGATE, "agents", "keygen"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    pem = tls(tmp_path)
    with web(tmp_path) as pages:
        pass  # only for the file that vouches for the certificate
    argv = [CALLGATE, "agents", "directory", "agent.pem", "--serve", "127.0.0.1:0", "--certificate", pem]
    port = pages.port
    argv[argv.index("127.0.0.1:0")] = f"127.0.0.1:{port}"
    origin = f"https://localhost:{port}"
    with subprocess.Popen([*argv, "--origin", origin], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as served:
        timer = threading.Timer(90, served.kill)
        timer.start()
        try:
            assert re.search(rf"https://127\.0\.0\.1:{port}{WELL_KNOWN}", served.stderr.readline())
            agents = {
                "mode": "required",
                "known": {"friend": {"directory": origin}},
                "signatures": {"allow_addresses": INSIDE, "require_signed_directories": True},
            }
            with serving(tmp_path, {"web": {"url": everything.url}}, pages.env, agents=agents) as gateway:
                assert signed_by_command(tmp_path, gateway.url("web"), origin).status == 200
        finally:
            timer.cancel()
            served.send_signal(signal.SIGINT)
            assert served.wait(20) == 0


def signed_by_command(directory, url, origin):
    body = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
    words = ["agents", "sign", url, "--directory", origin, "-d", body]
    done = subprocess.run([CALLGATE, *words], cwd=directory, check=True, capture_output=True, text=True, timeout=60)
    headers = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return ask(url, body.encode(), headers | accept)


def tls(directory):
    """The certificate of the tests' directories with its key, in a file."""
    raise NotImplementedError(serialization, _contexts)
