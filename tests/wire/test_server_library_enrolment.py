"""`approval/enroll/begin` and `approval/enroll/finish` of a server with verified approval, on the wire."""

import asyncio
import json
from datetime import datetime

import cbor2
import pytest

from callgate.approval.action import from_base64url, to_base64url
from callgate.protocol import ENROLL_BEGIN, ENROLL_FINISH, TICKET
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, refusal, text_of
from support.approval_server import Clock, running
from support.registry import requirement
from support.table import rows

VERIFICATION = (-32001, "verification_failed")
PENDING = (-32001, "no_pending_enrollment")
NOT_AUTHORISED = (-32602, "enrolment_not_authorised")


@pytest.fixture(scope="module")
def library():
    with running(clock=Clock()) as server:
        yield server


@pytest.fixture
def user(request):
    return f"u{abs(hash(request.node.name))}"


@pytest.fixture(params=ERAS)
def peer(library, user, request):
    return library.peer(user, request.param)


@pytest.fixture
def options(library, peer, user):
    return peer.begin(library.ticket(user))["result"]["options"]


def in_server(coroutine):
    return asyncio.run(coroutine)


@requirement("VA-030", "VA-032", "VA-035")
def test_the_options_of_a_new_person(options, user):
    assert options.keys() == {
        "rp",
        "user",
        "challenge",
        "pubKeyCredParams",
        "timeout",
        "attestation",
        "excludeCredentials",
        "authenticatorSelection",
    }
    assert options["rp"] == {"id": "localhost", "name": "Callgate"}
    assert (options["user"]["name"], options["user"]["displayName"]) == (user, user)
    assert len(from_base64url(options["user"]["id"])) == 32
    assert len(from_base64url(options["challenge"])) == 32
    assert options["pubKeyCredParams"] == [{"type": "public-key", "alg": alg} for alg in (-7, -8, -257)]
    assert (options["attestation"], options["timeout"]) == ("none", 300000)
    assert options["authenticatorSelection"] == {"residentKey": "preferred", "userVerification": "required"}
    assert options["excludeCredentials"] == []


@requirement("VA-030")
def test_options_are_the_only_member_of_the_result(library, peer, user):
    result = peer.begin(library.ticket(user))["result"]
    assert result.keys() - {"resultType", "_meta"} == {"options"}


@requirement("VA-024")
def test_members_of_params_change_nothing(library, peer, user):
    junk = {
        "user": "mallory",
        "options": {"rp": {"id": "evil"}},
        "userVerification": "discouraged",
        "response": [1],
        "_meta": {TICKET: library.ticket(user), "dev.example/user": "mallory"},
    }
    options = peer.result(ENROLL_BEGIN, junk)["options"]
    assert (options["user"]["name"], options["rp"]["id"]) == (user, "localhost")
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert refusal(peer.ask(ENROLL_BEGIN, junk | {"_meta": {}})) == NOT_AUTHORISED


@requirement("VA-025")
def test_without_a_ticket_nothing_begins(library, peer):
    before = in_server(library.shelf.open_registrations(0))
    for ticket in (None, "", "guess", "x" * 5000, 5, ["a"], {"a": 1}, True):
        answer = peer.ask(ENROLL_BEGIN, {"_meta": {TICKET: ticket}})
        assert refusal(answer) == NOT_AUTHORISED, ticket
    assert refusal(peer.ask(ENROLL_BEGIN)) == NOT_AUTHORISED
    assert in_server(library.shelf.open_registrations(0)) == before


@requirement("VA-026")
def test_a_ticket_works_once(library, peer, user):
    ticket = library.ticket(user)
    assert "result" in peer.begin(ticket)
    assert refusal(peer.begin(ticket)) == NOT_AUTHORISED


@requirement("VA-031")
def test_no_registration_challenge_comes_twice(library, peer, user):
    found = set()
    for number in range(100):
        # A person has few registrations open at once; these are different people.
        options = peer.begin(library.ticket(f"{user}-{number // 4}"))["result"]["options"]
        found.add(options["challenge"])
    assert len(found) == 100


@requirement("VA-036")
def test_a_finished_enrolment_names_the_passkey_and_its_time(library, peer, options):
    key = SoftwareAuthenticator()
    response = key.create(options)
    result = peer.finish(response)["result"]
    assert result.keys() - {"resultType", "_meta"} == {"success", "credentialId", "createdAt"}
    assert (result["success"], result["credentialId"]) == (True, response["id"])
    created = datetime.fromisoformat(result["createdAt"])
    assert created.timestamp() == library.approval.approvals.now() / 1000


@requirement("VA-034", "VA-043")
def test_what_is_enrolled_is_excluded_next_time_with_its_own_transports(library, peer, user):
    key = peer.enrol(library.ticket(user), SoftwareAuthenticator(transports=("hybrid", "internal")))
    named = {"type": "public-key", "id": to_base64url(key.passkeys[0].id), "transports": ["hybrid", "internal"]}
    again = peer.begin(library.ticket(user))["result"]["options"]
    assert again["excludeCredentials"] == [named]
    assert peer.challenge("wipe")["requestOptions"]["allowCredentials"] == [named]


@requirement("VA-033", "VA-046", "VA-155")
@pytest.mark.parametrize(("seconds", "ends"), [(299, None), (301, PENDING)])
def test_an_enrolment_may_take_five_minutes(library, peer, options, seconds, ends):
    response = SoftwareAuthenticator().create(options)
    clock = library.approval._clock
    clock.now += seconds * 1000
    answer = peer.finish(response)
    assert ("result" in answer) if ends is None else (refusal(answer) == ends)


@requirement("VA-047")
def test_a_registration_challenge_finishes_once(peer, options):
    key = SoftwareAuthenticator()
    assert "result" in peer.finish(key.create(options))
    assert refusal(peer.finish(key.create(options, ignore_exclude=True))) == PENDING


@requirement("VA-155")
def test_a_finish_without_a_begin():
    with running() as server:
        own = {"rp": {"id": "localhost"}, "user": {"id": to_base64url(bytes(32))}, "challenge": to_base64url(bytes(32))}
        response = SoftwareAuthenticator().create(own | {"pubKeyCredParams": [{"type": "public-key", "alg": -7}]})
        for era in ERAS:
            assert refusal(server.peer(era=era).finish(response)) == PENDING


@requirement("VA-037", "VA-156")
def test_a_challenge_of_the_clients_own_making_is_no_challenge(peer, options):
    response = SoftwareAuthenticator().create(options, challenge=b"mine" * 8)
    assert refusal(peer.finish(response)) == VERIFICATION


@requirement("VA-038", "VA-041", "VA-156")
@pytest.mark.parametrize(
    "bend",
    [
        {"uv": False},
        {"up": False},
        {"rp_id": "evil.example"},
        {"origin": "https://evil.example"},
        {"type": "webauthn.get"},
        {"cross_origin": True},
        {"top_origin": "https://evil.example"},
        {"backed_up": True, "backup_eligible": False},
    ],
    ids=lambda bend: next(iter(bend)),
)
def test_what_is_wrong_in_the_response_is_wrong_without_attestation_too(library, peer, options, user, bend):
    assert refusal(peer.finish(SoftwareAuthenticator().create(options, **bend))) == VERIFICATION
    assert in_server(library.shelf.credentials(user)) == []


def bent(response, **inner):
    return response | {"response": response["response"] | inner}


def attestation(response, **changes):
    found = cbor2.loads(from_base64url(response["response"]["attestationObject"]))
    return bent(response, attestationObject=to_base64url(cbor2.dumps(found | changes)))


@requirement("VA-039", "VA-156")
def test_a_broken_response_of_any_shape(peer, options):
    good = SoftwareAuthenticator().create(options)
    inner = good["response"]
    half = inner["attestationObject"][: len(inner["attestationObject"]) // 2]
    broken = [
        None,
        5,
        "text",
        [],
        {},
        {"id": good["id"]},
        good | {"response": None},
        good | {"response": []},
        good | {"id": 5},
        good | {"id": "AAAA", "rawId": "AAAA"},
        good | {"rawId": "AAAA"},
        good | {"type": "password"},
        bent(good, attestationObject=half),
        bent(good, attestationObject=""),
        bent(good, attestationObject="*"),
        bent(good, attestationObject=5),
        bent(good, attestationObject=to_base64url(b"\xff" * 100)),
        bent(good, attestationObject=to_base64url(b"\x9f" * 5000)),
        bent(good, clientDataJSON=""),
        bent(good, clientDataJSON=None),
        bent(good, clientDataJSON=to_base64url(b"[]")),
        bent(good, clientDataJSON=to_base64url(b"{" * 2000)),
        attestation(good, authData=b"short"),
        attestation(good, authData="text"),
        attestation(good, fmt="unheard-of"),
        attestation(good, fmt=5),
        attestation(good, attStmt={"sig": b"x"}),
        attestation(good, attStmt=None),
    ]
    for response in broken:
        answer = peer.finish(response)
        assert refusal(answer) == VERIFICATION, json.dumps(response)[:200]
    assert refusal(peer.ask(ENROLL_FINISH, {})) == VERIFICATION
    # None of it has used the enrolment up.
    assert "result" in peer.finish(good)


@requirement("VA-040")
def test_a_bad_attestation_signature(peer, options):
    key = SoftwareAuthenticator()
    bad = key.create(options, attestation="packed", tamper_signature=True)
    assert refusal(peer.finish(bad)) == VERIFICATION
    assert "result" in peer.finish(key.create(options, attestation="packed"))


@requirement("VA-044", "VA-045", "VA-154")
def test_a_passkey_is_enrolled_once_and_stays_as_it_was(library, peer, user):
    key = peer.enrol(library.ticket(user))
    (stored,) = in_server(library.shelf.credentials(user))
    again = peer.begin(library.ticket(user))["result"]["options"]
    taken = {"credential_id": stored.id, "ignore_exclude": True}
    bad = SoftwareAuthenticator().create(again, uv=False, **taken)
    assert refusal(peer.finish(bad)) == VERIFICATION
    same = SoftwareAuthenticator(transports=("internal",)).create(again, **taken)
    assert refusal(peer.finish(same)) == (-32001, "credential_already_enrolled")
    assert in_server(library.shelf.credentials(user)) == [stored]
    assert key.passkeys[0].id == from_base64url(stored.id)


@requirement("VA-029")
@rows("era", ERAS)
def test_first_use_lets_one_passkey_in_and_no_second(era):
    with running(first_use=True) as server:
        peer = server.peer("alice", era)
        key = peer.enrol(None)
        assert refusal(peer.begin(None)) == NOT_AUTHORISED
        challenge = peer.challenge("wipe")
        evidence = {
            "method": "webauthn",
            "challengeId": challenge["challengeId"],
            "response": key.get(challenge["requestOptions"]),
        }
        assert text_of(peer.call("wipe", None, evidence)) == "wiped"
        # With a ticket there is always a way.
        peer.enrol(server.ticket("alice"))
        # A revoked passkey does not bring the open door back.
        for held in asyncio.run(server.shelf.credentials("alice")):
            asyncio.run(server.approval.approvals.revoke(held.id, by="operator"))
        assert refusal(peer.begin(None)) == NOT_AUTHORISED


@requirement("VA-100", "VA-099")
def test_no_class_is_turned_away_and_each_works_where_it_may(library, peer, user):
    ours = {}
    for transports in (("internal",), (), ("usb",)):
        ours[transports] = peer.enrol(library.ticket(user), SoftwareAuthenticator(transports=transports))
    arguments = {"symbol": "X", "quantity": 1, "side": "buy"}
    for transports, key in ours.items():
        challenge = peer.challenge("place_trade", arguments)
        assert len(challenge["requestOptions"]["allowCredentials"]) == 3
        evidence = {
            "method": "webauthn",
            "challengeId": challenge["challengeId"],
            "response": key.get(challenge["requestOptions"]),
        }
        assert text_of(peer.call("place_trade", arguments, evidence)) == "buy 1 X", transports
