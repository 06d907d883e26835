"""A registered device answers calls over HTTP, through the reference client of examples/device_client as it is typed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request

import pytest

from callgate.approval.overview import fingerprint
from callgate.cli import run
from support.devices import CLIENT
from support.persons import approval_site
from support.registry import requirement
from support.sessions import Guest, until
from support.stores import ready
from support.table import rows

CEREMONY = {"extensions": {"verifiedApproval": {}}}
# `wipe` takes devices; `quiz` and whatever the server marks take passkeys only.
DEMANDS = {"demands": {"wipe": {"methods": ["passkey", "device"]}}}


class Console:
    """The gateway's console, to somebody who is signed in."""

    def __init__(self, site, person, session, secret):
        self.origin, self.person, self.session, self.secret = site.origin, person, session, secret

    def post(self, path, body):
        headers = {
            "content-type": "application/json",
            "origin": self.origin,
            "x-callgate-csrf": self.session.csrf,
            "cookie": f"callgate_session_{self.origin.rpartition(':')[2]}={self.secret}",
        }
        request = urllib.request.Request(f"{self.origin}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def act(self, path, body):
        issued = self.post(f"{path}/options", body)
        self.person.key.origin = self.origin
        response = self.person.key.get(issued["requestOptions"])
        return self.post(path, {"body": body, "challengeId": issued["challengeId"], "response": response})


def device(site, *words, says="", check=True):
    """The client as somebody types it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(CLIENT), "--file", str(site.key), *words],
        input=says,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert not check or (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    whole = {"arguments": "whole"}
    with (
        ready(request.param, folder) as url,
        approval_site(folder, servers_approval=DEMANDS, store={"url": url}, audit=whole) as running,
    ):
        running.key = folder / "device.json"
        running.origin = f"http://localhost:{running.gateway.port}"
        credential = asyncio.run(running.person.approvals.shelf.credentials("ann"))[0]
        session, secret = asyncio.run(running.person.approvals.session_for(credential))
        running.console = Console(running, running.person, session, secret)
        said = device(running, "enrol", running.origin, "--user", "ann", "--name", "Pixel")
        assert f"Open {running.origin}/me" in said
        assert running.console.act("/devices/add", {"line": said.split()[-1]}) == {"name": "Pixel"}
        yield running


def arrivals(site, identity):
    return sum(call["params"]["arguments"].get("id") == identity for call in site.vault("web").calls)


async def calling(site, identity, era="modern"):
    """A call that waits, and its request."""
    client = Guest.arrive(site.gateway.url("web"), era)
    task = asyncio.create_task(asyncio.to_thread(client.call, "wipe", id=identity))
    return task, await site.person.waiting_for(identity)


@requirement("VA-181")
@rows("era", ["legacy", "modern"])
async def test_a_yes_on_the_device_lets_exactly_this_call_through(site, era, tmp_path, monkeypatch, capsys):
    identity = f"yes-{era}-{time.monotonic_ns()}"
    task, request = await calling(site, identity, era)
    shown = await asyncio.to_thread(device, site, "watch", "--once", says="yes\n")
    assert identity in shown
    assert "The call is approved." in shown
    answer = await task
    assert json.loads(answer["result"]["content"][0]["text"])["ran"] == "wipe"
    assert arrivals(site, identity) == 1
    [record] = [
        one
        for one in site.decisions
        if one["verdict"] == "allow" and one["extra"].get("approval", {}).get("request") == request.id
    ]
    facts = record["extra"]["approval"]
    assert (facts["method"], facts["device"], facts["user"]) == ("device", "Pixel", "ann")
    assert "assertion" not in facts
    # The same call again is asked about again.
    task, again = await calling(site, identity, era)
    assert again.id != request.id
    assert "refused" in await asyncio.to_thread(device, site, "watch", "--once", says="no\n")
    await task
    # Its receipt proves it without a store, and says that no passkey was used.
    path = tmp_path / "receipt.json"
    until(lambda: run(["audit", "receipt", record["call"], "-c", str(site.gateway.config), "-o", str(path)]) == 0)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert run(["audit", "verify", "--receipt", path.name]) == 0
    said = capsys.readouterr().out
    assert "device “Pixel”" in said
    assert "without a passkey" in said
    assert run(["audit", "verify", "--receipt", path.name, "--json"]) == 0
    proven = json.loads(capsys.readouterr().out)["approval"]["proven"]
    [held] = await site.person.approvals.shelf.credentials("ann", method="device")
    assert (proven["whole"], proven["fingerprint"]) == (True, fingerprint(held.public_key))


async def test_a_no_on_the_device_is_heard_by_the_caller(site):
    identity = f"no-{time.monotonic_ns()}"
    task, request = await calling(site, identity)
    assert "The call is refused." in await asyncio.to_thread(device, site, "watch", "--once", says="no\n")
    answer = await task
    assert answer["error"]["data"]["reason"] == "approval_refused"
    assert arrivals(site, identity) == 0
    decided = await site.person.approvals.request(request.id)
    assert (decided.state, decided.decided_by, decided.evidence["decision"]) == ("refused", "ann", "no")


async def test_a_tool_that_takes_passkeys_only_is_not_shown(site):
    """What a client is told stays SEP-2672's: no other method is offered or taken there."""
    client = Guest.arrive(site.gateway.url("web"), "modern", **CEREMONY)
    issued = client.answer("approval/challenge/create", {"toolName": "quiz", "arguments": {"id": "x"}})["result"]
    assert set(issued) == {"challengeId", "displayText", "expiresAt", "requestOptions"}
    [held] = await site.person.approvals.shelf.credentials("ann", method="device")
    assert held.id not in json.dumps(issued)
    response = {"key": held.id, "time": 1, "decision": "yes", "signature": "A" * 86}
    mark = {"method": "device", "challengeId": issued["challengeId"], "response": response}
    params = {"name": "quiz", "arguments": {"id": "x"}, "_meta": {"io.modelcontextprotocol/verified-approval": mark}}
    answer = client.answer("tools/call", params)
    assert answer["error"]["data"]["reason"] == "unsupported_method"
    # Where devices are taken, their answers come from the device and not through the client.
    issued = client.answer("approval/challenge/create", {"toolName": "wipe", "arguments": {"id": "x"}})["result"]
    mark |= {"challengeId": issued["challengeId"]}
    answer = client.answer("tools/call", params | {"name": "wipe"})
    assert answer["error"]["data"]["reason"] == "unknown_credential"


async def test_it_is_listed_and_revoked_in_a_terminal(site, tmp_path, capsys):
    """A second device, which the operator takes away while a call waits."""
    site.key, kept = tmp_path / "second.json", site.key
    try:
        said = device(site, "enrol", site.origin, "--user", "ann", "--name", "Tablet")
        site.console.act("/devices/add", {"line": said.split()[-1]})
        [held] = [
            one for one in await site.person.approvals.shelf.credentials("ann", method="device") if one.name == "Tablet"
        ]
        listed = await asyncio.to_thread(site.gateway.command, "credentials", "list")
        assert "a device, no passkey" in listed
        assert "Tablet" in listed
        identity = f"lost-{time.monotonic_ns()}"
        task, request = await calling(site, identity)
        await asyncio.to_thread(site.gateway.command, "credentials", "revoke", "--yes", held.id)
        assert await asyncio.to_thread(device, site, "watch", "--once", says="yes\n", check=False) == ""
        assert (await site.person.approvals.request(request.id)).state == "waiting"
        await site.person.refuse(request=request)
        await task
    finally:
        site.key = kept
