"""Issuing a challenge (SEP-2672 §4.4.3) and the class filter (§4.7)."""

import inspect
import json
import secrets
from datetime import datetime

import msgspec
import pytest

from callgate.approval import ApprovalBounds, ApprovalPolicy, Approvals, ApprovalSettings
from callgate.approval.action import action_hash, from_base64url
from callgate.canonical import canonical
from callgate.errors import APPROVAL, Reason, Refused
from support.ceremonies import ARGUMENTS, GATED, SERVER_ID, Scene, authenticator, evidence
from support.registry import requirement
from support.table import rows

ON_THIS_DEVICE = msgspec.structs.replace(GATED, policy=ApprovalPolicy(authenticator_class="platform"))


async def refusal(awaited):
    with pytest.raises(Refused) as refused:
        await awaited
    return refused.value


def listed(issued):
    return [one["id"] for one in issued.result["requestOptions"]["allowCredentials"]]


@requirement("VA-049", "VA-054", "VA-058", "VA-059", "VA-061")
async def test_the_envelope_of_a_challenge():
    scene = Scene()
    held = await scene.enrol(authenticator(transports=("usb", "nfc")))
    issued = await scene.issue()
    result = issued.result
    assert set(result) == {"challengeId", "displayText", "expiresAt", "requestOptions"}
    ends = datetime.fromisoformat(result["expiresAt"])
    assert ends.timestamp() * 1000 == scene.clock.at + 60_000
    options = result["requestOptions"]
    assert options == {
        "challenge": options["challenge"],
        "rpId": "localhost",
        "allowCredentials": [{"type": "public-key", "id": held.id, "transports": ["usb", "nfc"]}],
        "userVerification": "required",
        "timeout": 60_000,
    }
    assert len(options["challenge"]) == 86
    challenge = from_base64url(options["challenge"])
    assert challenge[32:] == action_hash("delete_resource", canonical(ARGUMENTS), SERVER_ID)


@rows("milliseconds", [1_000, 90_000])
@requirement("VA-058")
async def test_the_lifetime_is_the_configured_one(milliseconds):
    scene = Scene(ApprovalSettings(challenge_ms=milliseconds))
    await scene.enrol(authenticator())
    result = (await scene.issue()).result
    assert datetime.fromisoformat(result["expiresAt"]).timestamp() * 1000 - scene.clock.at == milliseconds


@requirement("VA-050")
async def test_an_id_is_random_and_says_nothing():
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(per_user=1000)))
    await scene.enrol(authenticator())
    ids = {(await scene.issue()).result["challengeId"] for _ in range(500)}
    assert len(ids) == 500
    assert all(len(from_base64url(one)) * 8 >= 128 for one in ids)
    # No place of the id is the same in all of them.
    assert all(len({one[at] for one in ids}) > 10 for at in range(24))


@requirement("VA-055", "VA-056")
async def test_no_nonce_comes_twice_and_all_are_drawn_from_the_secure_source():
    assert inspect.signature(Approvals).parameters["random"].default is secrets.token_bytes
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(per_user=20_000, in_all=20_000)))
    await scene.enrol(authenticator())
    nonces = [from_base64url((await scene.issue()).result["requestOptions"]["challenge"])[:32] for _ in range(10_000)]
    assert len(set(nonces)) == 10_000
    counts = [0] * 256
    for nonce in nonces:
        for byte in nonce:
            counts[byte] += 1
    # 1250 of each are expected; a deviation of 10 standard deviations is no chance.
    assert all(900 < count < 1600 for count in counts)


async def test_the_dice_are_those_that_were_passed_in():
    drawn = iter(range(1, 1000))
    scene = Scene(random=lambda count: bytes([next(drawn)]) * count)
    await scene.enrol(authenticator())
    first, second = [(await scene.issue()).challenge for _ in range(2)]
    assert len(set(first.nonce)) == len(set(second.nonce)) == 1
    assert first.nonce != second.nonce


@requirement("VA-060")
async def test_the_list_holds_this_persons_passkeys_and_nobody_elses():
    scene = Scene()
    anns = {(await scene.enrol(authenticator())).id for _ in range(2)}
    bobs = await scene.enrol(authenticator(), "bob")
    assert set(listed(await scene.issue())) == anns
    assert listed(await scene.issue(user="bob")) == [bobs.id]


@rows(
    ("transports", "eligible"),
    [
        pytest.param(("internal",), False, marks=requirement("VA-095", "VA-007")),
        pytest.param(("hybrid",), True, marks=requirement("VA-096")),
        pytest.param(("usb",), True, marks=requirement("VA-096")),
        pytest.param(("nfc",), True, marks=requirement("VA-096")),
        pytest.param(("ble",), True, marks=requirement("VA-096")),
        pytest.param((), False, marks=requirement("VA-097")),
        pytest.param(("hybrid", "internal"), True, marks=requirement("VA-098")),
        pytest.param(("smart-card",), False),
    ],
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else "",
)
async def test_what_a_cross_platform_tool_takes(transports, eligible):
    scene, other = Scene(), authenticator()
    asked = authenticator(transports=transports)
    held, second = await scene.enrol(asked), await scene.enrol(other)
    issued = await scene.issue()
    assert set(listed(issued)) == ({held.id, second.id} if eligible else {second.id})
    given = evidence(issued, asked, credential_id=held.id)
    if eligible:
        await scene.call(given)
    else:
        assert (await refusal(scene.call(given))).reason is Reason.AUTHENTICATOR_CLASS_MISMATCH


@rows("transports", [("internal",), (), ("usb",), ("hybrid", "internal")], ids=str)
@requirement("VA-099", "VA-100")
async def test_a_platform_tool_takes_any(transports):
    scene, key = Scene(), authenticator(transports=transports)
    held = await scene.enrol(key)
    issued = await scene.issue(ON_THIS_DEVICE)
    assert listed(issued) == [held.id]
    await scene.call(evidence(issued, key), ON_THIS_DEVICE)


@requirement("VA-113")
async def test_the_class_is_the_one_at_the_time_of_the_call():
    scene, laptop = Scene(), authenticator(transports=("internal",))
    await scene.enrol(laptop)
    given = evidence(await scene.issue(ON_THIS_DEVICE), laptop)
    # The tool has become stricter meanwhile, although the challenge lists this passkey.
    assert (await refusal(scene.call(given))).reason is Reason.AUTHENTICATOR_CLASS_MISMATCH


@rows("enrol", ["nothing", "internal", "revoked"])
async def test_without_a_passkey_that_the_tool_takes_there_is_no_challenge(enrol):
    scene = Scene()
    if enrol == "internal":
        await scene.enrol(authenticator(transports=("internal",)))
    elif enrol == "revoked":
        held = await scene.enrol(authenticator())
        await scene.approvals.revoke(held.id, by="operator")
    refused = await refusal(scene.issue())
    assert (refused.reason, refused.code) == (Reason.NO_ELIGIBLE_CREDENTIAL, APPROVAL)
    assert scene.shelf.rows("challenge") == []
    assert (await refusal(scene.issue(user=None))).reason is Reason.NO_ELIGIBLE_CREDENTIAL


@rows("arguments", [{}, {"resourceId": ""}, {"resourceId": 5}])
@requirement("VA-053")
async def test_arguments_that_break_the_schema_get_no_challenge(arguments):
    scene = Scene()
    await scene.enrol(authenticator())
    refused = await refusal(scene.issue(arguments=arguments))
    assert (refused.reason, refused.code) == (Reason.ARGUMENTS_INVALID, -32602)
    assert scene.shelf.rows("challenge") == []


async def test_arguments_that_nobody_could_read_get_no_challenge():
    scene = Scene(ApprovalSettings(argument_bytes=100))
    await scene.enrol(authenticator())
    most = "x" * (100 - len('{"resourceId":""}'))
    await scene.issue(arguments={"resourceId": most})
    refused = await refusal(scene.issue(arguments={"resourceId": most + "x"}))
    assert (refused.reason, refused.code) == (Reason.ARGUMENTS_INVALID, -32602)


@requirement("VA-178")
async def test_open_prompts_of_a_person_are_limited_until_one_closes():
    scene, key = Scene(ApprovalSettings(bounds=ApprovalBounds(per_user=3))), authenticator()
    await scene.enrol(key)
    await scene.enrol(authenticator(), "bob")
    issued = [await scene.issue() for _ in range(3)]
    assert (await refusal(scene.issue())).reason is Reason.APPROVAL_LIMIT
    # Somebody else is not held up by it.
    await scene.issue(user="bob")
    await scene.call(evidence(issued[0], key))
    await scene.issue()
    assert (await refusal(scene.issue())).reason is Reason.APPROVAL_LIMIT
    scene.clock.tick(60_000)
    await scene.issue()


async def test_open_prompts_are_limited_in_all():
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(per_user=3, in_all=4)))
    for user in ("ann", "bob"):
        await scene.enrol(authenticator(), user)
    for user in ("ann", "ann", "bob", "bob"):
        await scene.issue(user=user)
    assert (await refusal(scene.issue())).reason is Reason.APPROVAL_LIMIT


@requirement("VA-062")
async def test_the_text_is_made_here_of_the_arguments():
    scene = Scene()
    await scene.enrol(authenticator())
    texts = [
        (await scene.issue(arguments={"resourceId": one, "displayText": "harmless"})).result["displayText"]
        for one in ("a", "b")
    ]
    assert texts[0] != texts[1]
    assert texts[0].startswith("delete_resource\n")
    described = await scene.issue(describe=lambda given: f"Permanently delete resource {given['resourceId']}")
    assert described.result["displayText"] == "Permanently delete resource abc123"
    assert described.challenge.display_text == described.result["displayText"]


async def test_what_was_asked_is_kept_with_the_challenge():
    scene = Scene()
    await scene.enrol(authenticator())
    kept = await scene.shelf.challenge((await scene.issue()).challenge.id)
    assert (kept.tool, kept.canonical, kept.server, kept.user) == (
        "delete_resource",
        b'{"resourceId":"abc123"}',
        "store",
        "ann",
    )
    assert kept.action_hash == action_hash("delete_resource", kept.canonical, SERVER_ID)


async def test_the_result_is_json():
    scene = Scene()
    await scene.enrol(authenticator())
    result = (await scene.issue()).result
    assert json.loads(json.dumps(result)) == result
