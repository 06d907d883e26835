"""What has to outlive a server, on SQLite and on PostgreSQL; and what it puts on record."""

import contextlib
import json
import subprocess
import sys

import pytest
from sqlalchemy import select

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import Block, Store, set_block
from callgate.store.schema import audit_record
from support.approval_peer import HttpPeer, refusal, signed, text_of
from support.approval_server import running, ticket
from support.fork_server import CALLGATE
from support.registry import requirement
from support.sessions import until
from support.stores import ready

A = {"resourceId": "a"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path, monkeypatch):
    # The keys of a store that is not a file are in the user's state directory: for this test, in one of its own.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ready(request.param, tmp_path) as url:
        yield url


def records(store, kind="decision"):
    """The log's records of one kind, the oldest first, as they stand in the store."""
    opened = Store.open(store)
    try:
        with opened.reading() as conn:
            bodies = conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars().all()
    finally:
        opened.close_sync()
    found = [json.loads(body) for body in bodies]
    return [one for one in found if one["kind"] == kind]


@requirement("VA-042", "VA-057", "VA-091", "VA-043")
def test_a_restart_loses_nothing(store):
    with running(store=store, user="alice") as server:
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"), SoftwareAuthenticator(transports=("usb", "nfc")))
        challenge = peer.challenge("delete_resource", A)
        assert challenge["requestOptions"]["allowCredentials"][0]["transports"] == ["usb", "nfc"]
    with running(store=store, user="alice") as server:
        peer = server.peer()
        assert text_of(peer.call("delete_resource", A, signed(challenge, key))) == "deleted a"
        assert server.executed == [("delete_resource", "a")]
        assert refusal(peer.call("delete_resource", A, signed(challenge, key))) == (-32001, "challenge_consumed")
        # The counter was kept too.
        used = key.passkeys[0].counter - 1
        again = peer.challenge("delete_resource", A)
        assert again["requestOptions"]["allowCredentials"] == challenge["requestOptions"]["allowCredentials"]
        answer = peer.call("delete_resource", A, signed(again, key, counter=used))
        assert refusal(answer) == (-32001, "signature_counter_regression")


@requirement("VA-092")
def test_another_server_id_makes_open_challenges_useless(store):
    with running(store=store, user="alice", server_id="https://one.example") as server:
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        challenge = peer.challenge("delete_resource", A)
    with running(store=store, user="alice", server_id="https://two.example") as server:
        answer = server.peer().call("delete_resource", A, signed(challenge, key))
        assert refusal(answer) == (-32001, "argument_hash_mismatch")
        assert server.executed == []


def signed_for(stack, store, name="files"):
    """The action hash of one and the same call on a server."""
    server = stack.enter_context(running(store=store, user="alice", name=name))
    peer = server.peer()
    peer.enrol(server.ticket("alice"))
    return peer.challenge("delete_resource", A)["requestOptions"]["challenge"][43:]


@requirement("VA-093")
def test_two_fresh_servers_sign_for_themselves_alone(tmp_path):
    with contextlib.ExitStack() as stack:
        found = [signed_for(stack, f"sqlite:///{tmp_path / name / 'approvals.db'}") for name in ("one", "two")]
        # Also where they share a store.
        found.append(signed_for(stack, f"sqlite:///{tmp_path / 'one' / 'approvals.db'}", "other"))
    assert len(set(found)) == 3


class TestRecords:
    """One decision for each call to a gated tool, in the log that `callgate audit` reads."""

    @pytest.fixture
    def store(self, tmp_path):
        return f"sqlite:///{tmp_path / 'approvals.db'}"

    @pytest.fixture
    def server(self, store):
        with running(store=store, user="alice") as server:
            yield server

    @requirement("VA-174", "VA-180")
    def test_an_approved_call(self, store, server):
        peer = server.peer()
        synced = SoftwareAuthenticator(
            transports=("hybrid", "internal"), counting=False, backup_eligible=True, backed_up=True
        )
        peer.enrol(server.ticket("alice"), synced)
        challenge = peer.challenge("delete_resource", A)
        assert text_of(peer.call("delete_resource", A, signed(challenge, synced))) == "deleted a"
        (decision,) = records(store)
        assert (decision["verdict"], decision["server"], decision["tool"]) == ("allow", "files", "delete_resource")
        assert decision["arguments"]["value"] == A
        facts = decision["extra"]["approval"]
        assert (facts["user"], facts["challenge"]) == ("alice", challenge["challengeId"])
        assert facts["transports"] == ["hybrid", "internal"]
        assert (facts["backup_eligible"], facts["backed_up"], facts["local_use_possible"]) == (True, True, True)
        assert facts["client_reported"] == {"authenticator_attachment": "cross-platform"}
        until(lambda: records(store, "outcome"))
        (outcome,) = records(store, "outcome")
        assert (outcome["call"], outcome["outcome"]) == (decision["call"], "result")
        enrolled = [one["action"] for one in records(store, "admin")]
        assert enrolled == ["credential.enrol"]
        verified = subprocess.run(
            [CALLGATE, "audit", "verify", "--store", store], capture_output=True, text=True, timeout=60, check=False
        )
        assert verified.returncode == 0, verified.stderr

    @requirement("VA-170")
    def test_a_copy_of_a_passkey_that_fell_behind(self, store, server):
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        for counter, expected in ((7, None), (6, "signature_counter_regression")):
            challenge = peer.challenge("delete_resource", A)
            answer = peer.call("delete_resource", A, signed(challenge, key, counter=counter))
            assert (text_of(answer) == "deleted a") if expected is None else (refusal(answer)[1] == expected)
        approved, behind = records(store)
        assert (approved["verdict"], approved["extra"]["approval"]["counter"]) == ("allow", 7)
        assert (behind["verdict"], behind["reason"]) == ("refuse", "signature_counter_regression")
        claimed = behind["extra"]["approval"]["claimed"]
        assert claimed == {
            "challenge": challenge["challengeId"],
            "credential": approved["extra"]["approval"]["credential"],
        }

    def test_why_a_signature_failed_is_on_record_and_not_on_the_wire(self, store, server):
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        challenge = peer.challenge("delete_resource", A)
        answer = peer.call("delete_resource", A, signed(challenge, key, uv=False))
        assert "not verified" not in json.dumps(answer)
        (entry,) = records(store)
        assert entry["extra"]["approval"]["why"] == "the person was not verified"

    def test_the_kill_switch_of_the_store_stops_gated_tools(self, store, server):
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        challenge = peer.challenge("delete_resource", A)
        opened = Store.open(store)
        set_block(opened, Block(on=True, at=1, by="operator"), None)
        opened.close_sync()
        until(lambda: refusal(peer.call("delete_resource", A))[1] == "blocked_by_policy")
        answer = peer.call("delete_resource", A, signed(challenge, key))
        assert refusal(answer)[1] == "blocked_by_policy"
        assert server.executed == []


def test_the_default_store_is_the_one_of_the_command_line(tmp_path, monkeypatch):
    """What `callgate enroll` writes without further words is what a server reads without further words."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with running(store=None, user="alice") as server:
        url = f"sqlite:///{tmp_path / 'callgate' / 'callgate.db'}"
        key = HttpPeer(server.url).enrol(ticket(url, "alice"))
        done = subprocess.run(
            [sys.executable, "-m", "callgate", "credentials", "list", "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert key.passkeys[0].id
        assert "alice" in done.stdout
