"""A client claims an answer of a device for a tool that takes passkeys only, or brings it where only a passkey counts:
inside a call, at the sign-in, for what lasts."""

import pytest

from callgate.approval import ApprovalPolicy
from callgate.approval.requirements import CatalogueTool, Deployment, ServerApprovalPolicy, ToolCatalogue
from callgate.canonical import canonical
from callgate.config.approval import ServerApproval, ToolDemand
from callgate.errors import Refused
from callgate.gate import Quorum
from support.console import ARGUMENTS
from support.devices import TAKES_DEVICES, Phone, ask, gated
from support.registry import requirement
from support.table import rows

MARK = {"io.modelcontextprotocol/verified-approval": {"required": "verified", "authenticatorClass": "platform"}}


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna")


@pytest.fixture
async def phone(console, anna):
    return await Phone.enrolled(console, anna)


@requirement("VA-181")
@rows(
    "policy",
    [
        ApprovalPolicy("platform"),
        ApprovalPolicy("cross-platform", methods=("webauthn", "device")),
        ApprovalPolicy("platform", require_counter=True, methods=("webauthn", "device")),
        TAKES_DEVICES.demanding([Quorum(methods=("webauthn",))]),
    ],
)
async def test_a_tool_that_does_not_take_it(console, phone, policy):
    asked = await ask(console, policy=policy, arguments={"resourceId": repr(policy)})
    assert asked.policy == policy
    assert await phone.waiting() == []
    assert (await phone.ask("call", asked.id)).reason == "unsupported_method"
    # Nor with a challenge that was made while the tool took it.
    call = {"request": asked.id, "challengeId": "x", "nonce": "A" * 43, "actionHash": "A" * 43}
    answer = await phone.send("answer", phone.signed(call))
    assert answer.reason in ("unsupported_method", "challenge_unknown")
    assert (await console.stored(asked)).state == "waiting"


async def test_inside_a_call(console, anna, phone):
    """SEP-2672's own wire: evidence of a device is none there, whichever challenge it answers."""
    asked = await ask(console)
    call = await phone.call(asked)
    issued = await console.approvals.challenge(gated(), ARGUMENTS, canonical(ARGUMENTS), "anna")
    assert [one["id"] for one in issued.result["requestOptions"]["allowCredentials"]] == [anna.credential.id]
    own = call | {
        "challengeId": issued.challenge.id,
        "nonce": phone.device.gateway,
        "actionHash": call["actionHash"],
    }
    for body, reason in ((phone.signed(call), "challenge_unknown"), (phone.signed(own), "unknown_credential")):
        with pytest.raises(Refused) as caught:
            await console.approvals.verify(gated(), ARGUMENTS, canonical(ARGUMENTS), body["evidence"])
        assert caught.value.reason.value == reason
    only_passkeys = gated(ApprovalPolicy("platform"))
    with pytest.raises(Refused) as caught:
        await console.approvals.verify(only_passkeys, ARGUMENTS, canonical(ARGUMENTS), phone.signed(own)["evidence"])
    assert caught.value.reason.value == "unsupported_method"
    assert (await phone.answer(asked)).json == {"state": "approved"}


async def test_for_what_lasts_and_at_the_sign_in(console, anna, phone):
    acts = console.approvals
    issued = await acts.begin_sign_in("anna")
    for begun, finish in (
        (issued, acts.finish_sign_in),
        (await acts.begin_device("anna"), lambda given: acts.finish_device("anna", given)),
        (
            await acts.begin_act("anna", "switch/off", b"{}", "x"),
            lambda it: acts.finish_act("anna", "switch/off", b"{}", it),
        ),
    ):
        challenge = begun.challenge
        assert phone.id not in challenge.allowed
        call = {"request": "", "challengeId": challenge.id, "nonce": "A" * 43, "actionHash": "A" * 43}
        with pytest.raises(Refused) as caught:
            await finish(phone.signed(call)["evidence"])
        assert caught.value.reason.value in ("unsupported_method", "sign_in_failed")


async def test_a_device_is_no_passkey_anywhere(console, anna, phone):
    """It is not offered to browsers, and does not count as a passkey of its person."""
    shelf = console.approvals.shelf
    assert [one.id for one in await shelf.credentials("anna")] == [anna.credential.id]
    assert phone.id not in (await console.post("/sign-in/options", {"user": "anna"})).text
    asked = await ask(console)
    assert phone.id not in (await console.post(f"/approve/{asked.id}/options", {}, anna)).text
    options = await console.approvals.begin_enrolment(await console.approvals.ticket("anna", by="test"))
    assert phone.id not in str(options)


def policies(section, entry):
    catalogue = ToolCatalogue()
    if entry is not None:
        catalogue.learn_all({"pay": entry})
    server = ServerApprovalPolicy("bank", section, catalogue, Deployment("urn:x", lambda _: None))
    return server.policy_of("pay", entry).methods


def entry(**more):
    from callgate.approval.requirements import read_tools

    return read_tools({"tools": [{"name": "pay", "inputSchema": {"type": "object"}} | more]})["pay"]


BOTH = ("passkey", "device")


@rows(
    ("section", "tool", "wanted"),
    [
        (ServerApproval(tools=("pay",)), entry(), ("webauthn",)),
        (ServerApproval(tools=("pay",), methods=BOTH), entry(), ("webauthn", "device")),
        (ServerApproval(tools=("pay",), methods=()), entry(), ("webauthn",)),
        # What the tool's own table says counts instead, and of several tables all.
        (ServerApproval(demands={"pay": ToolDemand(methods=BOTH)}), entry(), ("webauthn", "device")),
        (ServerApproval(methods=BOTH, demands={"pay": ToolDemand(methods=("passkey",))}), entry(), ("webauthn",)),
        (
            ServerApproval(demands={"p*": ToolDemand(methods=BOTH), "pay": ToolDemand(methods=("passkey",))}),
            entry(),
            ("webauthn",),
        ),
        # A mark of the server's own is SEP-2672's, which knows passkeys only; so is one that nobody can read.
        (ServerApproval(tools=("pay",), methods=BOTH), entry(_meta=MARK), ("webauthn",)),
        (
            ServerApproval(tools=("pay",), methods=BOTH),
            entry(_meta={"io.modelcontextprotocol/verified-approval": 7}),
            ("webauthn",),
        ),
        (ServerApproval(tools=("pay",), methods=BOTH), None, ("webauthn",)),
    ],
)
def test_which_tools_take_devices(section, tool, wanted):
    assert policies(section, tool) == wanted


def test_a_mark_that_was_there_once_still_demands_a_passkey():
    catalogue = ToolCatalogue()
    catalogue.learn_all({"pay": entry(_meta=MARK)})
    catalogue.learn_all({"pay": entry()})
    server = ServerApprovalPolicy("bank", ServerApproval(methods=BOTH), catalogue, Deployment("urn:x", lambda _: None))
    assert server.policy_of("pay", CatalogueTool("pay", {"name": "pay"})).methods == ("webauthn",)
