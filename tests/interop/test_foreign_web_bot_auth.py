"""npm's `web-bot-auth` 0.1.3: what it signs is verified here, and what is signed for it is verified there."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from callgate.sdk.sign import FOR_WEB_BOT_AUTH_0_1, AgentKey, signed_headers
from callgate.sdk.web_bot_auth import Authenticator, Listed, MemoryAgents, Signed, Sources, VerifyOptions
from support.node import install, node_in
from support.table import rows

SCRIPT = Path(__file__).with_name("foreign_web_bot_auth.mjs")
URL, PATH = "https://gate.example", "/servers/one/mcp"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
pytestmark = [pytest.mark.verify, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def foreign():
    """What the package answers."""
    prefix = install("web-bot-auth-0.1.3", ("web-bot-auth@0.1.3",))
    shutil.copy(SCRIPT, prefix / SCRIPT.name)

    def run(what, **given):
        command = [str(node_in(prefix)), str(prefix / SCRIPT.name), what, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def key():
    return AgentKey.generate()


@rows("query", ["", "?a=b%20c"])
@rows("agent", [None, "https://agent.example"])
def test_it_verifies_what_is_signed_for_it(foreign, key, agent, query):
    url = f"{URL}{PATH}{query}"
    made = signed_headers(
        key.signer(agent), "POST", url, BODY, (), covered=FOR_WEB_BOT_AUTH_0_1, legacy=agent is not None
    )
    asked = {"method": "POST", "headers": made, "jwk": dict(key.jwk)}
    assert foreign("verify", url=url, **asked) == "verified"
    assert foreign("verify", url=f"{URL}/servers/two/mcp", **asked) == "refused: invalid signature"
    assert foreign("verify", url=f"https://other.example{PATH}{query}", **asked) == "refused: invalid signature"


@rows("agent", [None, '"https://agent.example"', 'sig1="https://agent.example"'])
@rows("query", ["", "?a=b"])
async def test_what_it_signs_is_verified(foreign, key, agent, query):
    headers = {} if agent is None else {"Signature-Agent": agent}
    private = key._private_jwk()
    made = foreign("sign", url=f"{URL}{PATH}{query}", method="POST", headers=headers, jwk=private)
    listed = Listed("friend", key.thumbprint, "static", jwk=json.dumps(dict(key.jwk)).encode())
    sources = Sources(discovery="ignore", agents=(listed,))
    gate = Authenticator(verify=VerifyOptions(sources=sources, nonces=MemoryAgents()))
    sent = tuple((name.lower().encode(), value.encode()) for name, value in (headers | made).items())

    async def decide(authority):
        return await gate.authorize(Signed("POST", "https", authority, PATH, query[1:] or None, sent, b""))

    assert (await decide("other.example")).reason.value == "signature_invalid"
    assert (await decide("gate.example")).ok
    assert (await decide("gate.example")).reason.value == "nonce_replay"
