"""A client makes up the state that lets a call wait for, or use, an approval. Every changed character is noticed."""

import base64
import hashlib
import hmac
import json
import secrets

import pytest

from support.persons import approval_site
from support.raw import streaming
from support.sessions import Guest
from support.states import OPENS_URLS, modern_guest, reason, retry, state_for
from support.table import rows

servers = rows("server", ["web", "pipe"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("forged"), approval={"park_seconds": 0}) as running:
        yield running


def refused(site, server, client, state):
    answer = retry(client, state, id="1")
    assert answer["error"]["code"] == -32602, answer
    assert reason(answer) == "request_state_invalid"
    assert site.vault(server).calls == []


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def plain(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@servers
def test_a_character_changed_anywhere(site, server):
    client = modern_guest(site, server)
    state = state_for(client, id="1")
    mark = state.index(".")
    for at in range(mark + 1, len(state), 7):
        other = "B" if state[at] == "A" else "A"
        refused(site, server, client, state[:at] + other + state[at + 1 :])


@servers
@rows("change", [lambda s: s[:-1], lambda s: s + "A", lambda s: s + "=", lambda s: s + ".x"])
def test_longer_and_shorter(site, server, change):
    client = modern_guest(site, server)
    refused(site, server, client, change(state_for(client, id="1")))


@servers
async def test_other_words_sealed_with_another_key(site, server):
    """A state that runs longer, sealed by the attacker."""
    client = modern_guest(site, server)
    mark, body, _tag = state_for(client, id="1").split(".")
    fields = json.loads(plain(body))
    assert fields[1] in {request.id for request in await site.person.open_requests()}
    fields[4] += 10_000_000
    forged = json.dumps(fields).encode()
    for key in (b"", b"callgate", secrets.token_bytes(32)):
        tag = hmac.digest(key, b"callgate state\0" + forged, hashlib.sha256)
        refused(site, server, client, f"{mark}.{text(forged)}.{text(tag)}")
    refused(site, server, client, f"{mark}.{text(forged)}.")
    refused(site, server, client, f"{mark}.{text(forged)}")
    refused(site, server, client, f"{mark}..")


@servers
def test_an_elicitation_id_is_no_state(site, server):
    """The other thing that is sealed with the same key cannot stand in for a state."""
    handshake = Guest.arrive(site.gateway.url(server), "legacy", **OPENS_URLS)
    params = {"name": "wipe", "arguments": {"id": "1"}}
    with streaming(
        handshake.url, handshake.body("tools/call", params), handshake.headers("tools/call", params)
    ) as response:
        line = next(line for line in response if line.startswith(b"data: "))
    question = json.loads(line.removeprefix(b"data: "))
    assert question["method"] == "elicitation/create"
    refused(site, server, modern_guest(site, server), question["id"])


@servers
@rows("state", ["", "theirs", "callgate-", "callgate-00000000.e30.e30", 7, {"a": 1}, ["x"]])
def test_what_is_not_ours_opens_nothing(site, server, state):
    """A state of the server's own, or rubbish: nobody who approves the call would see it."""
    refused(site, server, modern_guest(site, server), state)
