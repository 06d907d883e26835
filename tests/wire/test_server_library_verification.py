"""The fourteen steps of SEP-2672 §4.8 on the wire: each reason, what comes first, and that nothing runs or is used up."""

import asyncio

import pytest
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.approval import ApprovalBounds, ApprovalSettings
from callgate.approval.action import from_base64url, to_base64url
from callgate.errors import Reason
from callgate.protocol import META
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, HttpPeer, refusal, signed, text_of
from support.approval_server import Clock, listening, running
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

A, B = {"resourceId": "a"}, {"resourceId": "b"}


@pytest.fixture(scope="module")
def library():
    settings = ApprovalSettings(
        bounds=ApprovalBounds(per_user=1000, registrations_per_user=100, credentials_per_user=1000)
    )
    with running(clock=Clock(), settings=settings) as server:
        yield server


@pytest.fixture
def clock(library):
    return library.approval._clock


@pytest.fixture(scope="module", params=ERAS)
def alice(library, request):
    return library.join(f"alice-{request.param}", request.param)


@pytest.fixture
def challenge(alice):
    return alice.challenge("delete_resource", A)


@pytest.fixture(autouse=True)
def _nothing_ran(library):
    """A test that lets a tool run takes it off the list; no other has run when it ends."""
    before = list(library.executed)
    yield
    assert library.executed == before


def reason(answer):
    code, found = refusal(answer)
    assert code == -32001
    return found


class TestEachStep:
    """A fault of its own for each step; then the same challenge, honestly signed, still works (§4.8, step 13)."""

    @pytest.fixture
    def still_good(self, library, alice, challenge):
        yield
        answer = alice.call("delete_resource", A, alice.signs(challenge))
        assert text_of(answer) == "deleted a"
        library.executed.pop()

    @requirement("VA-022", "VA-102", "VA-141", "VA-073", "VA-074")
    def test_1_no_evidence(self, alice, still_good):
        for meta in (None, {}, {"verified-approval": {"method": "webauthn"}}, {"dev.example/x": 1}):
            params = {"name": "delete_resource", "arguments": A} | ({} if meta is None else {"_meta": meta})
            assert reason(alice.peer.ask("tools/call", params)) == "missing_evidence"

    @requirement("VA-103", "VA-141", "VA-073", "VA-074", "VA-128")
    def test_2_malformed(self, alice, challenge, still_good):
        good = alice.signs(challenge)
        inner = good["response"]["response"]
        bad = [None, True, 0, 1.5, "", "webauthn", [], [good], {}, {"method": "webauthn"}]
        bad += [good | {name: value} for name in good for value in (None, 5, [], True)]
        bad += [{key: good[key] for key in good if key != name} for name in good]
        bad += [good | {"response": good["response"] | {"id": value}} for value in (None, 5, "", "ü", "x" * 5000)]
        bad += [good | {"response": good["response"] | {"response": value}} for value in (None, [], "x", {})]
        bad += [
            good | {"response": good["response"] | {"response": inner | {name: value}}}
            for name in ("clientDataJSON", "authenticatorData", "signature")
            for value in (None, 5, "", "*", "a" * 20_000, "ü")
        ]
        bad += [good | {"response": good["response"] | {"type": "password"}}]
        for evidence in bad:
            params = {"name": "delete_resource", "arguments": A, "_meta": {META: evidence}}
            assert reason(alice.peer.ask("tools/call", params)) == "missing_evidence", evidence

    @requirement("VA-104", "VA-142", "VA-128")
    def test_3_another_method(self, alice, challenge, still_good):
        for method in ("totp", "push", "", "WebAuthn", "webauthn "):
            evidence = alice.signs(challenge) | {"method": method}
            assert reason(alice.call("delete_resource", A, evidence)) == "unsupported_method"

    @requirement("VA-105", "VA-143")
    def test_4_unknown_challenge(self, alice, challenge, still_good):
        for known in ("made-up", "", "x" * 300, challenge["challengeId"] + "x", challenge["challengeId"].lower()):
            evidence = alice.signs(challenge) | {"challengeId": known}
            assert reason(alice.call("delete_resource", A, evidence)) == "challenge_unknown"

    @requirement("VA-109", "VA-146", "VA-128")
    def test_7_another_tool(self, alice, challenge, still_good):
        assert reason(alice.call("wipe", None, alice.signs(challenge))) == "challenge_wrong_tool"

    @requirement("VA-110", "VA-147", "VA-128")
    def test_8_a_passkey_that_nobody_enrolled(self, alice, challenge, still_good):
        evidence = alice.signs(challenge, credential_id="AAAAAAAA")
        assert reason(alice.call("delete_resource", A, evidence)) == "unknown_credential"

    @requirement("VA-113", "VA-148", "VA-128")
    def test_9_a_passkey_of_another_class(self, library, alice, still_good):
        inside = alice.peer.enrol(library.ticket(alice.name), SoftwareAuthenticator(transports=("internal",)))
        challenge = alice.challenge("delete_resource", A)
        own = inside.get(challenge["requestOptions"] | {"allowCredentials": []})
        evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": own}
        assert reason(alice.call("delete_resource", A, evidence)) == "authenticator_class_mismatch"

    @requirement("VA-114", "VA-149", "VA-128", "VA-073", "VA-074")
    def test_10_a_signature_that_does_not_hold(self, alice, challenge, still_good):
        assert reason(alice.call("delete_resource", A, alice.signs(challenge, tamper_signature=True))) == (
            "signature_verification_failed"
        )

    @pytest.mark.parametrize(
        "bend",
        [
            pytest.param({"type": "webauthn.create"}, marks=requirement("VA-115")),
            pytest.param({"challenge": bytes(64)}, marks=requirement("VA-116")),
            pytest.param({"origin": "https://evil.example"}, marks=requirement("VA-117")),
            pytest.param({"origin": "http://localhost.evil.example"}, marks=requirement("VA-117")),
            pytest.param({"origin": "https://localhost"}, marks=requirement("VA-117")),
            pytest.param({"cross_origin": True}, marks=requirement("VA-118")),
            pytest.param({"top_origin": "https://evil.example"}, marks=requirement("VA-118")),
            pytest.param({"rp_id": "evil.example"}, marks=requirement("VA-119")),
            pytest.param({"up": False}, marks=requirement("VA-120")),
            pytest.param({"uv": False}, marks=requirement("VA-121")),
            pytest.param({"user_handle": b"somebody else"}, marks=requirement("VA-114")),
            pytest.param({"tamper_signature": True, "counter": 0}, marks=requirement("VA-122")),
        ],
        ids="-".join,
    )
    def test_10_everything_else_that_a_signature_has_to_say(self, alice, challenge, still_good, bend):
        answer = alice.call("delete_resource", A, alice.signs(challenge, **bend))
        assert reason(answer) == "signature_verification_failed"
        # The wire does not tell a forger which part it was.
        assert answer["error"]["data"].keys() == {"reason", "advice"}

    @requirement("VA-149")
    def test_10_changed_authenticator_data(self, alice, challenge, still_good):
        evidence = alice.signs(challenge)
        inner = evidence["response"]["response"]
        data = bytearray(from_base64url(inner["authenticatorData"]))
        data[36] ^= 0x80
        inner["authenticatorData"] = to_base64url(bytes(data))
        assert reason(alice.call("delete_resource", A, evidence)) == "signature_verification_failed"

    @requirement("VA-123", "VA-150", "VA-128")
    def test_11_a_counter_that_did_not_grow(self, library, alice, challenge, still_good):
        assert text_of(alice.approves("delete_resource", A)) == "deleted a"
        library.executed.pop()
        used = alice.key.passkeys[0].counter
        for counter in (used, used - 1, 0):
            evidence = alice.signs(challenge, counter=counter)
            assert reason(alice.call("delete_resource", A, evidence)) == "signature_counter_regression"

    @requirement("VA-125", "VA-151", "VA-128")
    def test_12_other_arguments(self, alice, challenge, still_good):
        answer = alice.call("delete_resource", B, alice.signs(challenge))
        assert reason(answer) == "argument_hash_mismatch"


@requirement("VA-106", "VA-144")
def test_5_a_challenge_is_used_once(library, alice, challenge):
    evidence = alice.signs(challenge)
    assert text_of(alice.call("delete_resource", A, evidence)) == "deleted a"
    library.executed.pop()
    assert reason(alice.call("delete_resource", A, evidence)) == "challenge_consumed"


@requirement("VA-108", "VA-145")
def test_6_a_challenge_runs_out(alice, challenge, clock):
    evidence = alice.signs(challenge)
    clock.now += 60_000
    assert reason(alice.call("delete_resource", A, evidence)) == "challenge_expired"


@requirement("VA-130")
def test_14_the_counter_is_kept(library, alice):
    assert text_of(alice.approves("delete_resource", A)) == "deleted a"
    library.executed.pop()
    said = alice.key.passkeys[0].counter
    held = {one.id: one for one in asyncio.run(library.shelf.credentials(alice.name))}
    assert held[to_base64url(alice.key.passkeys[0].id)].counter == said
    assert alice.refused("delete_resource", A, counter=said) == (-32001, "signature_counter_regression")


@requirement("VA-124")
def test_11_a_passkey_that_does_not_count_is_not_counted(library):
    synced = library.join("synced", counting=False, transports=("hybrid", "internal"))
    for _ in range(2):
        assert text_of(synced.approves("delete_resource", A)) == "deleted a"
        library.executed.pop()


class TestOrder:
    """Two faults at once: the earlier step gives the reason."""

    @requirement("VA-101")
    def test_the_method_before_the_challenge(self, alice, challenge):
        evidence = alice.signs(challenge) | {"method": "totp", "challengeId": "made-up"}
        assert reason(alice.call("delete_resource", A, evidence)) == "unsupported_method"

    @requirement("VA-101", "VA-132")
    def test_consumed_before_expired_before_tool(self, library, alice, clock):
        used, unused = (alice.challenge("delete_resource", A) for _ in range(2))
        assert text_of(alice.call("delete_resource", A, alice.signs(used))) == "deleted a"
        library.executed.pop()
        clock.now += 61_000
        assert reason(alice.call("wipe", None, alice.signs(used))) == "challenge_consumed"
        assert reason(alice.call("wipe", None, alice.signs(unused))) == "challenge_expired"

    @requirement("VA-101", "VA-132")
    def test_the_tool_before_the_passkey(self, alice, challenge):
        evidence = alice.signs(challenge, credential_id="AAAAAAAA")
        assert reason(alice.call("wipe", None, evidence)) == "challenge_wrong_tool"

    @requirement("VA-101")
    def test_the_passkey_before_the_signature(self, alice, challenge):
        evidence = alice.signs(challenge, credential_id="AAAAAAAA", tamper_signature=True)
        assert reason(alice.call("delete_resource", A, evidence)) == "unknown_credential"

    @requirement("VA-101")
    def test_the_class_before_the_signature(self, library, alice):
        inside = alice.peer.enrol(library.ticket(alice.name), SoftwareAuthenticator(transports=("internal",)))
        challenge = alice.challenge("delete_resource", A)
        own = inside.get(challenge["requestOptions"] | {"allowCredentials": []}, tamper_signature=True)
        evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": own}
        assert reason(alice.call("delete_resource", A, evidence)) == "authenticator_class_mismatch"

    @requirement("VA-101", "VA-122")
    def test_the_signature_before_the_counter_before_the_arguments(self, alice, challenge):
        evidence = alice.signs(challenge, tamper_signature=True, counter=0)
        assert reason(alice.call("delete_resource", B, evidence)) == "signature_verification_failed"
        evidence = alice.signs(challenge, counter=1)
        assert reason(alice.call("delete_resource", B, evidence)) == "signature_counter_regression"

    @requirement("VA-101", "VA-126")
    def test_the_approval_before_the_schema(self, alice, challenge):
        """What does not fit the schema was never approved either; the reason is the earlier step's."""
        assert reason(alice.call("delete_resource", {"resourceId": 5}, alice.signs(challenge))) == (
            "argument_hash_mismatch"
        )


@requirement("VA-126")
@rows("era", ERAS)
def test_a_schema_that_became_tighter_meanwhile_burns_no_approval(era):
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("tightening", extensions=[approval], log_level="ERROR")
    ran = []

    @approval.tool(mcp)
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    with listening(approval.http_app(mcp)) as url:
        peer = HttpPeer(url, era)
        key = peer.enrol(asyncio.run(approval.approvals.ticket("alice", by="operator")))
        challenge = peer.challenge("pay", {"amount": 1000})
        schema = mcp._tool_manager.get_tool("pay").parameters["properties"]["amount"]
        schema["maximum"] = 100
        answer = peer.call("pay", {"amount": 1000}, signed(challenge, key))
        assert refusal(answer) == (-32602, "arguments_invalid")
        assert ran == []
        del schema["maximum"]
        assert text_of(peer.call("pay", {"amount": 1000}, signed(challenge, key))) == "paid"
        assert ran == [1000]


@requirement("VA-138", "VA-139")
def test_the_sixteen_reasons_and_no_other_have_the_code():
    """Each is seen on the wire: eleven above, five in the tests of challenges and enrolment."""
    assert {one.value for one in Reason if one.code == -32001} == {
        "missing_evidence",
        "unsupported_method",
        "challenge_unknown",
        "challenge_consumed",
        "challenge_expired",
        "challenge_wrong_tool",
        "unknown_credential",
        "authenticator_class_mismatch",
        "signature_verification_failed",
        "signature_counter_regression",
        "argument_hash_mismatch",
        "tool_not_approved_required",
        "no_eligible_credential",
        "credential_already_enrolled",
        "no_pending_enrollment",
        "verification_failed",
    }
