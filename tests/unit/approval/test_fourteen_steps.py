"""SEP-2672 §4.8: each step fails with its own reason while every later one would fail too, and none of those runs."""

import msgspec
import pytest

from callgate.approval.evidence import WebAuthn
from callgate.approval.model import ApprovalPolicy, ApprovalSettings, Gated
from callgate.errors import APPROVAL, Reason, Refused, Spent
from support.ceremonies import ARGUMENTS, GATED, SERVER_ID, Scene, authenticator, evidence
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

TRADE = Gated("store", SERVER_ID, "place_trade")
# Breaks the schema of the gated tool and is not what was signed.
OTHER = {"resourceId": ""}


class WatchedShelf(MemoryShelf):
    def __init__(self, trace):
        super().__init__()
        self.trace = trace

    async def look_up(self, challenge_id, credential_id):
        self.trace.append("look up")
        return await super().look_up(challenge_id, credential_id)

    async def use(self, use, witness=None):
        self.trace.append("use")
        await super().use(use, witness)


class WatchedMethod(WebAuthn):
    def __init__(self, trace):
        self.trace = trace

    def read(self, response):
        self.trace.append("read")
        return super().read(response)

    def check(self, proof, challenge, credential, party):
        self.trace.append("check")
        return super().check(proof, challenge, credential, party)


class World:
    """Ann has a security key, a passkey that never leaves her laptop and one that she lost; Bob has one of his own."""

    def __init__(self, settings=None):
        self.trace = []
        method = WatchedMethod(self.trace)
        self.scene = Scene(settings, shelf=WatchedShelf(self.trace), methods={"webauthn": method})
        self.key, self.laptop = authenticator(), authenticator(transports=("internal",))
        self.lost, self.bobs = authenticator(), authenticator(transports=("internal",))

    async def build(self):
        self.key_id = (await self.scene.enrol(self.key)).id
        await self.scene.enrol(self.laptop)
        await self.scene.enrol(self.bobs, "bob")
        lost = await self.scene.enrol(self.lost)
        await self.scene.approvals.revoke(lost.id, by="operator")
        return self

    async def issue(self, **more):
        return await self.scene.issue(**more)

    async def used(self):
        """A challenge that was consumed and has expired since."""
        issued = await self.issue()
        signed = evidence(issued, self.key)
        await self.scene.call(signed)
        self.scene.clock.tick(120_000)
        self.trace.clear()
        return signed

    async def counter(self):
        return (await self.scene.shelf.credential(self.key_id)).counter

    def forge(self, issued, who):
        return evidence(issued, who, tamper_signature=True, counter=0, credential_id=_id(who))


def _id(who):
    return who.get({"challenge": "AA", "rpId": "localhost"})["id"]


@pytest.fixture
async def world():
    return await World().build()


async def missing(world):
    return None, TRADE


async def not_an_object(world):
    return [], TRADE


async def misshapen(world):
    issued = await world.issue()
    world.scene.clock.tick(60_000)
    return world.forge(issued, world.lost) | {"method": "totp", "challengeId": 5}, TRADE


async def other_method(world):
    return {"method": "totp", "challengeId": "no such challenge", "response": {}}, TRADE


async def misshapen_response(world):
    return {"method": "webauthn", "challengeId": "no such challenge", "response": {}}, TRADE


async def unknown_challenge(world):
    return world.forge(await world.issue(), world.lost) | {"challengeId": "made-up"}, TRADE


async def consumed(world):
    signed = await world.used()
    return signed | {"response": signed["response"] | {"id": "nobodys"}}, TRADE


async def expired(world):
    issued = await world.issue()
    world.scene.clock.tick(60_000)
    return world.forge(issued, world.lost), TRADE


async def wrong_tool(world):
    return world.forge(await world.issue(), world.lost), TRADE


async def unknown_credential(world):
    forged = world.forge(await world.issue(), world.laptop)
    return forged | {"response": forged["response"] | {"id": "nobodys", "rawId": "nobodys"}}, GATED


async def revoked_credential(world):
    """The challenge lists it: it was withdrawn afterwards."""
    late = authenticator()
    held = await world.scene.enrol(late)
    issued = await world.issue()
    await world.scene.approvals.revoke(held.id, by="operator")
    return world.forge(issued, late), GATED


async def somebody_elses_credential(world):
    """It is of a class that the tool does not take either: that would be the next fault."""
    return world.forge(await world.issue(), world.bobs), GATED


async def wrong_class(world):
    """It is Ann's, and not among the listed ones either: that would be the next fault."""
    return world.forge(await world.issue(), world.laptop), GATED


async def enrolled_after_issue(world):
    issued = await world.issue()
    late = authenticator()
    await world.scene.enrol(late)
    return world.forge(issued, late), GATED


async def forged(world):
    await world.scene.call(evidence(await world.issue(), world.key))
    world.trace.clear()
    return world.forge(await world.issue(), world.key), GATED


async def counter_stands_still(world):
    return evidence(await world.issue(), world.key, counter=await world.counter()), GATED


async def other_arguments(world):
    return evidence(await world.issue(), world.key), GATED


STEPS = [
    pytest.param(missing, "missing_evidence", [], id="1", marks=requirement("VA-102")),
    pytest.param(not_an_object, "missing_evidence", [], id="2-not-an-object", marks=requirement("VA-103")),
    pytest.param(misshapen, "missing_evidence", [], id="2", marks=requirement("VA-103")),
    pytest.param(other_method, "unsupported_method", [], id="3", marks=requirement("VA-104")),
    pytest.param(misshapen_response, "missing_evidence", ["read"], id="2-response", marks=requirement("VA-103")),
    pytest.param(unknown_challenge, "challenge_unknown", ["read", "look up"], id="4", marks=requirement("VA-105")),
    pytest.param(consumed, "challenge_consumed", ["read", "look up"], id="5", marks=requirement("VA-106", "VA-132")),
    pytest.param(expired, "challenge_expired", ["read", "look up"], id="6", marks=requirement("VA-132")),
    pytest.param(wrong_tool, "challenge_wrong_tool", ["read", "look up"], id="7", marks=requirement("VA-109")),
    pytest.param(unknown_credential, "unknown_credential", ["read", "look up"], id="8", marks=requirement("VA-110")),
    pytest.param(revoked_credential, "unknown_credential", ["read", "look up"], id="8-revoked"),
    pytest.param(
        somebody_elses_credential,
        "unknown_credential",
        ["read", "look up"],
        id="8-other-person",
        marks=requirement("VA-111"),
    ),
    pytest.param(wrong_class, "authenticator_class_mismatch", ["read", "look up"], id="9", marks=requirement("VA-113")),
    pytest.param(
        enrolled_after_issue, "unknown_credential", ["read", "look up"], id="9-unlisted", marks=requirement("VA-112")
    ),
    pytest.param(
        forged,
        "signature_verification_failed",
        ["read", "look up", "check"],
        id="10",
        marks=requirement("VA-114", "VA-122"),
    ),
    pytest.param(
        counter_stands_still,
        "signature_counter_regression",
        ["read", "look up", "check"],
        id="11",
        marks=requirement("VA-123"),
    ),
    pytest.param(
        other_arguments, "argument_hash_mismatch", ["read", "look up", "check"], id="12", marks=requirement("VA-125")
    ),
]


@rows(("fault", "reason", "ran"), STEPS)
@requirement("VA-101")
async def test_a_step_that_fails_gives_its_reason_and_ends_it(fault, reason, ran):
    world = await World().build()
    given, gated = await fault(world)
    world.trace.clear()
    with pytest.raises(Refused) as refused:
        await world.scene.call(given, gated, OTHER)
    assert (refused.value.reason, refused.value.code) == (reason, APPROVAL)
    assert world.trace == ran


@rows(("fault", "reason", "ran"), STEPS[5:])
@requirement("VA-128")
async def test_what_fails_uses_nothing_up(fault, reason, ran):
    world = await World().build()
    given, gated = await fault(world)
    before = await world.scene.shelf.look_up(given["challengeId"], given["response"]["id"])
    with pytest.raises(Refused):
        await world.scene.call(given, gated, OTHER)
    assert await world.scene.shelf.look_up(given["challengeId"], given["response"]["id"]) == before


@requirement("VA-101", "VA-126")
async def test_the_schema_is_checked_once_more_after_step_12_and_before_13(world):
    signed = evidence(await world.issue(), world.key)
    tightened = msgspec.structs.replace(GATED, input_schema={"type": "object", "maxProperties": 0})
    world.trace.clear()
    with pytest.raises(Refused) as refused:
        await world.scene.call(signed, tightened)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    assert refused.value.code == -32602
    assert world.trace == ["read", "look up", "check"]
    await world.scene.call(signed)


@requirement("VA-106")
async def test_13_a_challenge_is_used_up_once(world):
    signed = evidence(await world.issue(), world.key)
    first, second = await world.scene.verify(signed), await world.scene.verify(signed)
    await world.scene.shelf.use(first.use)
    with pytest.raises(Spent) as spent:
        await world.scene.shelf.use(second.use)
    assert spent.value.reason is Reason.CHALLENGE_CONSUMED


@requirement("VA-129")
async def test_13_expiry_is_looked_at_again(world):
    issued = await world.issue()
    signed = evidence(issued, world.key)
    # One look at the clock for step 6, one for step 13.
    seen = iter([issued.challenge.expires_at - 1, issued.challenge.expires_at])
    world.scene.approvals._clock = lambda: next(seen) / 1000
    verified = await world.scene.verify(signed)
    with pytest.raises(Spent) as spent:
        await world.scene.shelf.use(verified.use)
    assert spent.value.reason is Reason.CHALLENGE_EXPIRED
    assert (await world.scene.shelf.challenge(issued.challenge.id)).consumed_at is None


@requirement("VA-130")
async def test_14_the_counter_is_the_one_that_was_signed(world):
    await world.scene.call(evidence(await world.issue(), world.key, counter=41))
    held = await world.scene.shelf.credential(world.key_id)
    assert (held.counter, held.last_used_at) == (41, world.scene.clock.at)
    with pytest.raises(Refused) as refused:
        await world.scene.call(evidence(await world.issue(), world.key, counter=41))
    assert refused.value.reason is Reason.SIGNATURE_COUNTER_REGRESSION


@requirement("VA-131")
async def test_14_the_counter_never_goes_down(world):
    low = await world.scene.verify(evidence(await world.issue(), world.key, counter=6))
    high = await world.scene.verify(evidence(await world.issue(), world.key, counter=7))
    await world.scene.shelf.use(high.use)
    with pytest.raises(Spent) as spent:
        await world.scene.shelf.use(low.use)
    assert spent.value.reason is Reason.SIGNATURE_COUNTER_REGRESSION
    assert await world.counter() == 7


@rows("counter", [0, 4, 5])
@requirement("VA-123")
async def test_a_counter_that_has_begun_has_to_grow(counter):
    world = await World().build()
    await world.scene.call(evidence(await world.issue(), world.key, counter=5))
    with pytest.raises(Refused) as refused:
        await world.scene.call(evidence(await world.issue(), world.key, counter=counter))
    assert refused.value.reason is Reason.SIGNATURE_COUNTER_REGRESSION
    await world.scene.call(evidence(await world.issue(), world.key, counter=6))


@requirement("VA-124")
async def test_a_counter_of_zero_is_not_compared():
    scene, synced = Scene(), authenticator(counting=False, transports=("hybrid", "internal"))
    await scene.enrol(synced)
    for _ in range(2):
        await scene.call(evidence(await scene.issue(), synced))
    (held,) = await scene.shelf.credentials("ann")
    assert held.counter == 0


@requirement("VA-175")
async def test_a_tool_may_refuse_passkeys_that_do_not_count():
    scene, synced, key = Scene(), authenticator(counting=False), authenticator()
    counted = msgspec.structs.replace(GATED, policy=ApprovalPolicy(require_counter=True))
    await scene.enrol(synced)
    with pytest.raises(Refused) as refused:
        await scene.issue(counted)
    assert refused.value.reason is Reason.NO_ELIGIBLE_CREDENTIAL
    held = await scene.enrol(key)
    issued = await scene.issue(counted)
    assert [one["id"] for one in issued.result["requestOptions"]["allowCredentials"]] == [held.id]
    with pytest.raises(Refused) as refused:
        await scene.call(evidence(issued, synced, credential_id=_id(synced)), counted)
    assert refused.value.reason is Reason.UNKNOWN_CREDENTIAL
    await scene.call(evidence(issued, key), counted)


@requirement("VA-108")
async def test_a_challenge_holds_until_the_millisecond_before_it_expires(world):
    early, late = [evidence(await world.issue(), world.key) for _ in range(2)]
    world.scene.clock.tick(59_999)
    # Only verified: while the store uses it up, time goes on.
    await world.scene.verify(early)
    world.scene.clock.tick(1)
    with pytest.raises(Refused) as refused:
        await world.scene.call(late)
    assert refused.value.reason is Reason.CHALLENGE_EXPIRED


@requirement("VA-107")
async def test_a_replay_nine_minutes_late_is_called_a_replay(world):
    signed = await world.used()
    world.scene.clock.tick(8 * 60_000)
    # Issuing is what makes the shelf forget.
    await world.issue()
    with pytest.raises(Refused) as refused:
        await world.scene.call(signed)
    assert refused.value.reason is Reason.CHALLENGE_CONSUMED


@requirement("VA-132")
async def test_the_state_of_a_challenge_is_told_in_order(world):
    """Unknown, consumed, expired, wrong tool: with all that follow present as well."""
    signed = await world.used()
    fresh = await world.issue()
    world.scene.clock.tick(60_000)
    late = evidence(fresh, world.key)
    soon = evidence(await world.issue(), world.key)
    told = []
    for given in (signed | {"challengeId": "made-up"}, signed, late, soon):
        with pytest.raises(Refused) as refused:
            await world.scene.verify(given, TRADE)
        told.append(refused.value.reason)
    assert told == ["challenge_unknown", "challenge_consumed", "challenge_expired", "challenge_wrong_tool"]


@requirement("VA-128")
async def test_a_forged_attempt_leaves_the_challenge_to_the_genuine_one(world):
    issued = await world.issue()
    with pytest.raises(Refused):
        await world.scene.call(world.forge(issued, world.key))
    await world.scene.call(evidence(issued, world.key))


async def test_a_challenge_of_another_person_is_unknown_in_this_ones_session(world):
    gated = msgspec.structs.replace(GATED, policy=ApprovalPolicy("platform"))
    bobs = await world.issue(gated=gated, user="bob")
    signed = evidence(bobs, world.bobs)
    canonical = bobs.challenge.canonical
    with pytest.raises(Refused) as refused:
        await world.scene.approvals.verify(gated, ARGUMENTS, canonical, signed, user="ann")
    assert refused.value.reason is Reason.CHALLENGE_UNKNOWN
    await world.scene.approvals.verify(gated, ARGUMENTS, canonical, signed, user="bob")


@requirement("VA-159", "VA-160", "VA-139")
@rows(("fault", "reason", "ran"), STEPS)
async def test_another_language_changes_the_message_and_nothing_else(fault, reason, ran):
    told = []
    for locale in ("en", "de"):
        world = await World(ApprovalSettings(locale=locale)).build()
        given, gated = await fault(world)
        with pytest.raises(Refused) as refused:
            await world.scene.call(given, gated, OTHER)
        told.append(refused.value)
    english, german = told
    assert english.message != german.message
    assert (english.reason, english.code, english.advice) == (german.reason, german.code, german.advice)
    assert english.reason == reason


async def test_what_goes_on_record_says_what_the_approval_is_worth():
    scene, synced = Scene(), authenticator(transports=("hybrid", "internal"), backup_eligible=True, backed_up=True)
    held = await scene.enrol(synced)
    verified = await scene.verify(evidence(await scene.issue(), synced))
    facts = verified.facts
    assert (facts["transports"], facts["local_use_possible"]) == (["hybrid", "internal"], True)
    assert (facts["backup_eligible"], facts["backed_up"]) == (True, True)
    assert facts["client_reported"] == {"authenticator_attachment": "cross-platform"}
    assert (facts["user"], facts["credential"], facts["origin"]) == ("ann", held.id, "http://localhost:8000")
