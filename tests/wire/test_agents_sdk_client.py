"""The `mcp` SDK's client, signing every request, through a gateway that lets only its agent in; in both eras."""

import asyncio
import datetime as dt
import signal
import socket
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from callgate.agents.model import WELL_KNOWN
from callgate.sdk import sign
from support.agents_gate import INSIDE, known, reason
from support.clients import until
from support.fork_server import CALLGATE
from support.gateway import approve_listed, in_thread, serving
from support.raw import JSON_HEADERS, ask
from support.registry import requirement
from support.table import rows

HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"x","version":"1"}}}'
)
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
    servers = {"web": {"url": everything.url}}
    with serving(tmp_path_factory.mktemp("gate"), servers, reviewed=False, agents=agents) as gateway:
        # Nobody else may ask for the list that a reviewer reads.
        names = in_thread(lambda: asyncio.run(listed(gateway, key)))
        approve_listed(gateway.config)
        while "echo" not in names:
            names = in_thread(lambda: asyncio.run(listed(gateway, key)))
        yield gateway


async def listed(gateway, key):
    async with Client(sign.mcp_transport(gateway.url("web"), key.signer()), mode="legacy") as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def text(result):
    return result.content[0].text


@requirement("WB-001", "WB-041", "WB-079")
@rows("mode", MODES)
async def test_a_signed_client_is_let_in_and_held_to_its_tools(gate, key, mode):
    transport = sign.mcp_transport(gate.url("web"), key.signer("https://agent.example"))
    async with Client(transport, mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        # What it may not call is not shown to it.
        assert "echo" in tools
        assert tools <= {"echo", "add", "callgate_pending"}
        assert "hello" in text(await client.call_tool("echo", {"text": "hello"}))
        with pytest.raises(MCPError) as refused:
            await client.call_tool("fail", {})
        assert refused.value.error.data["reason"] == "tool_denied"
        # A refusal ends nothing.
        assert "again" in text(await client.call_tool("echo", {"text": "again"}))


@requirement("WB-057", "WB-084")
@rows("mode", MODES)
async def test_a_client_that_does_not_sign_or_signs_with_another_key_is_not_let_in(gate, mode):
    stranger = sign.AgentKey.generate().signer()
    answers = []
    for server in (gate.url("web"), sign.mcp_transport(gate.url("web"), stranger)):
        with pytest.raises((MCPError, ExceptionGroup)):
            async with Client(server, mode=mode) as client:
                answers.append(await client.call_tool("echo", {"text": "hello"}))
    assert answers == []

    def reasons():
        return {event["reason"] for event in gate.events("caller refused")}

    await until(lambda: {"missing_signature_headers", "unknown_keyid"} <= reasons())


@requirement("WB-007", "WB-092")
def test_from_keygen_to_a_call_with_commands_alone(tmp_path, everything):
    """Make a key, serve its directory, sign, be let in: the way an agent's operator goes it."""
    subprocess.run([CALLGATE, "agents", "keygen"], cwd=tmp_path, check=True, capture_output=True)
    vouching = certified(tmp_path)
    port = free_port()
    origin = f"https://localhost:{port}"
    words = ["directory", "agent.pem", "--serve", f"127.0.0.1:{port}", "--certificate", "tls.pem", "--origin", origin]
    argv = [CALLGATE, "agents", *words]
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as served:
        timer = threading.Timer(90, served.kill)
        timer.start()
        try:
            assert f"https://127.0.0.1:{port}{WELL_KNOWN}" in served.stderr.readline()
            agents = {
                "mode": "required",
                "known": {"friend": {"directory": origin}},
                "signatures": {"allow_addresses": INSIDE, "require_signed_directories": True},
            }
            env = {"SSL_CERT_FILE": str(vouching)}
            servers = {"web": {"url": everything.url}}
            with serving(tmp_path, servers, env, reviewed=False, agents=agents) as gateway:
                headers = signed_by_command(tmp_path, gateway.url("web"), origin)
                assert ask(gateway.url("web"), HELLO.encode(), headers | JSON_HEADERS).status == 200
                again = ask(gateway.url("web"), HELLO.encode(), headers | JSON_HEADERS)
                assert reason(again) == (401, "nonce_replay")
        finally:
            timer.cancel()
            served.send_signal(signal.SIGINT)
            assert served.wait(20) == 0


def signed_by_command(directory, url, origin):
    words = ["agents", "sign", url, "--directory", origin, "-d", HELLO]
    done = subprocess.run([CALLGATE, *words], cwd=directory, check=True, capture_output=True, text=True, timeout=60)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certified(directory):
    """A certificate for localhost that vouches for itself: with its key in tls.pem, and alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (directory / "tls.pem").write_bytes(pem + secret)
    (alone := directory / "vouching.pem").write_bytes(pem)
    return alone
