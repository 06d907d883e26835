"""Peers that share no code with us: another MCP SDK, another WebAuthn library, another RFC 8785, in another language."""

import asyncio
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from callgate.sdk.authenticators.software import SoftwareAuthenticator, Unattended
from callgate.sdk.client import ApprovalClient, Done, Enrolled, RefusedByServer
from support.gateway import serving
from support.node import install, node_in
from support.registry import requirement
from support.table import rows

HERE = Path(__file__).resolve().parent
ORIGIN = "http://localhost:4242"
PACKAGES = (
    "@modelcontextprotocol/sdk@1.29.0",
    "@simplewebauthn/server@13.3.0",
    "canonicalize@3.0.0",
    "zod@3.25.76",
)
pytestmark = [pytest.mark.verify, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """The command that runs one of the scripts, with its packages beside it."""
    prefix = install("foreign-1", PACKAGES)
    # Modules are looked for from where a script is, so it has to be there.
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, prefix / script.name)
    return lambda script, *words: [str(node_in(prefix)), str(prefix / script), *words]


@contextmanager
def our_http_server(store):
    process = subprocess.Popen(
        [sys.executable, str(HERE / "our_server.py"), str(store), "http"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=20)


def report_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(report, *, refused_again="no_pending_enrollment"):
    assert report["annotation"] == {"required": "verified", "authenticatorClass": "cross-platform"}
    assert report["enrolled"]["success"] is True
    assert report["result"] == "deleted r-17"
    for shown in ("r-17", "naïve ☃ 𝒳", "100", "null", "true"):
        assert shown in report["display"]
    assert report["reasons"] == {
        "no evidence": [-32001, "missing_evidence"],
        "finish without begin": [-32001, "no_pending_enrollment"],
        "enrolled twice": [-32001, refused_again],
        "not gated": [-32001, "tool_not_approved_required"],
        "other arguments": [-32001, "argument_hash_mismatch"],
        "other method": [-32001, "unsupported_method"],
        "replay": [-32001, "challenge_consumed"],
        "unknown challenge": [-32001, "challenge_unknown"],
    }
    assert report["extensions"]["verifiedApproval"] == {}
    assert report["extensions"]["io.modelcontextprotocol/verified-approval"] == {}


@requirement("VA-003", "VA-012", "VA-030", "VA-036", "VA-049", "VA-051", "VA-054")
def test_a_foreign_client_at_our_server_over_http(foreign, tmp_path):
    with our_http_server(tmp_path / "callgate.db") as url:
        check(report_of(foreign("foreign_client.mjs", ORIGIN, "-", "http", url)))


def test_a_foreign_client_at_our_server_over_stdio(foreign, tmp_path):
    words = [sys.executable, str(HERE / "our_server.py"), str(tmp_path / "callgate.db"), "stdio"]
    check(report_of(foreign("foreign_client.mjs", ORIGIN, "-", "stdio", *words)))


def test_a_foreign_client_at_our_gateway(foreign, tmp_path):
    wanted = {"tools": ["delete_*"], "authenticator_class": "cross-platform"}
    plain = {"command": [sys.executable, str(HERE / "plain_server.py")], "approval": wanted}
    approval = {"user": "alice", "first_use": True, "park_seconds": 0}
    with serving(tmp_path, {"plain": plain}, approval=approval) as gateway:
        report = report_of(foreign("foreign_client.mjs", ORIGIN, "-", "http", gateway.url("plain")))
    # Nobody has a passkey yet when the first call comes: there is no one whom the gateway could ask.
    assert report["reasons"].pop("no evidence")[1] == "approval_unavailable"
    check(report | {"reasons": {"no evidence": [-32001, "missing_evidence"], **report["reasons"]}})


@rows("algorithm", ["ES256", "EdDSA", "RS256"])
@requirement("VA-067", "VA-071")
async def test_our_client_at_a_foreign_server(foreign, algorithm):
    command, *words = foreign("foreign_server.mjs", ORIGIN)
    passkey = Unattended(SoftwareAuthenticator(ORIGIN, algorithm=algorithm))
    shown = []

    async def show(prompt):
        shown.append(prompt.display_text)

    params = StdioServerParameters(command=command, args=words)
    async with asyncio.timeout(60), ApprovalClient(Client(params, mode="legacy"), passkey, show=show) as client:
        early = await client.call_tool("delete_resource", {"resourceId": "r-1"})
        assert isinstance(early, RefusedByServer)
        assert early.reason == "no_eligible_credential"
        assert isinstance(await client.enrol(), Enrolled)
        outcome = await client.call_tool("delete_resource", {"resourceId": "r-1", "more": {"n": 1.50, "k": [None]}})
        assert isinstance(outcome, Done)
        assert outcome.approved
        assert outcome.result.content[0].text == "deleted r-1"
        again = await client.call_tool("delete_resource", {"resourceId": "r-2"})
        assert isinstance(again, Done)
        ran = await client.call_tool("runs", {})
        assert ran.result.content[0].text == "2"
    assert shown == ["Permanently delete resource r-1", "Permanently delete resource r-2"]
