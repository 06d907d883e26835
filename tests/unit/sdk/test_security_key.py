"""The security key's client on fido2's own code, against a key made of software."""

import asyncio
import builtins
import json
import time

import pytest
from fido2.webauthn import PublicKeyCredentialCreationOptions, PublicKeyCredentialRequestOptions
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    UserVerificationRequirement,
)

from callgate.errors import ConfigError
from callgate.sdk.authenticators import Cancelled, CreationPrompt, NoPasskey, Prompt, TimedOut
from callgate.sdk.authenticators.security_key import SecurityKey, creation_options, origin_for, request_options
from support.table import rows
from unit.sdk.ctap import VirtualKey

VERIFIED = UserVerificationRequirement.REQUIRED


def creation(rp_id="localhost", *exclude):
    options = generate_registration_options(
        rp_id=rp_id,
        rp_name="Here",
        user_name="ann",
        user_id=b"ann",
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in exclude],
        authenticator_selection=AuthenticatorSelectionCriteria(user_verification=VERIFIED),
    )
    said = json.loads(options_to_json(options))
    return options, CreationPrompt(server="s", user="ann", creation_options=said, expires_at=time.time() + 20)


def approval(rp_id="localhost", *allow, seconds=20.0):
    options = generate_authentication_options(
        rp_id=rp_id,
        allow_credentials=[
            PublicKeyCredentialDescriptor(id=one, transports=[AuthenticatorTransport.USB]) for one in allow
        ],
        user_verification=VERIFIED,
    )
    said = json.loads(options_to_json(options))
    return options, Prompt("Delete it?", "delete", "s", said, time.time() + seconds)


def key_of(*devices, said=None, **more):
    return SecurityKey(devices=lambda: devices, say=(said if said is not None else []).append, **more)


async def enrol(device, rp_id="localhost"):
    options, prompt = creation(rp_id)
    answer = await key_of(device).create(prompt)
    assert answer["response"]["transports"] == ["usb", "nfc"]
    return verify_registration_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id=rp_id,
        expected_origin=origin_for(rp_id),
        require_user_verification=True,
    )


@rows("rp_id", ["localhost", "gate.example"])
async def test_what_the_key_makes_and_signs_holds(rp_id):
    device = VirtualKey()
    said = []
    registration = await enrol(device, rp_id)
    options, prompt = approval(rp_id, b"another passkey", registration.credential_id)
    answer = await key_of(device, said=said).get(prompt)
    verify_authentication_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id=rp_id,
        expected_origin=origin_for(rp_id),
        credential_public_key=registration.credential_public_key,
        credential_current_sign_count=registration.sign_count,
        require_user_verification=True,
    )
    assert answer["type"] == "public-key"
    assert "=" not in json.dumps(answer)
    assert said == ["Touch the security key."]
    assert device.closed


async def test_another_origin_can_be_given():
    device = VirtualKey()
    await enrol(device, "gate.example")
    _, prompt = approval("gate.example")
    answer = await key_of(device, origin="https://sign.gate.example").get(prompt)
    from callgate.approval.action import from_base64url

    assert json.loads(from_base64url(answer["response"]["clientDataJSON"]))["origin"] == "https://sign.gate.example"
    with pytest.raises(NoPasskey):
        await key_of(device, origin="https://evil.example").get(prompt)


def test_the_options_are_fido2s():
    _, prompt = approval("gate.example", b"one")
    read = PublicKeyCredentialRequestOptions.from_dict(request_options(prompt.request_options))
    assert read.rp_id == "gate.example"
    assert read.user_verification == "required"
    assert [one.id for one in read.allow_credentials] == [b"one"]
    _, prompt = creation("gate.example", b"one")
    made = PublicKeyCredentialCreationOptions.from_dict(creation_options(prompt.creation_options))
    assert made.user.id == b"ann"
    assert made.rp.id == "gate.example"
    assert made.authenticator_selection.user_verification == "required"
    assert [one.id for one in made.exclude_credentials] == [b"one"]
    assert -7 in [one.alg for one in made.pub_key_cred_params]


def test_what_a_server_adds_does_not_reach_the_key():
    _, prompt = approval("gate.example", b"one")
    said = prompt.request_options | {
        "extensions": {"hmacGetSecret": {"salt1": "AAAA"}},
        "hints": ["made-up"],
        "timeout": 1,
    }
    said["allowCredentials"][0]["transports"] = ["made-up"]
    assert set(request_options(said)) == {"challenge", "rpId", "userVerification", "allowCredentials"}
    assert request_options(said)["allowCredentials"] == [{"type": "public-key", "id": "b25l"}]


async def test_a_key_that_is_enrolled_already_is_told_of():
    device = VirtualKey()
    registration = await enrol(device)
    _, prompt = creation("localhost", registration.credential_id)
    with pytest.raises(NoPasskey, match="enrolled already"):
        await key_of(device).create(prompt)


async def test_a_key_without_the_passkey_is_told_of():
    _, prompt = approval("localhost", b"another passkey")
    with pytest.raises(NoPasskey, match="none of the passkeys"):
        await key_of(VirtualKey()).get(prompt)


async def test_a_key_that_cannot_tell_who_uses_it_is_told_of():
    _, prompt = approval()
    with pytest.raises(NoPasskey, match="who uses it") as caught:
        await key_of(VirtualKey(options={"rk": True, "up": True})).get(prompt)
    assert "PIN" in caught.value.advice


async def test_no_pin_is_a_no():
    device = VirtualKey(options={"rk": True, "up": True, "clientPin": True})
    device.software.passkeys = []
    _, prompt = approval()
    with pytest.raises(Cancelled, match="no PIN"):
        await key_of(device, ask_pin=lambda: "").get(prompt)


async def test_the_key_can_be_told_no():
    device = VirtualKey()
    await enrol(device)
    device.denied = True
    with pytest.raises(Cancelled):
        await key_of(device).get(approval()[1])


async def test_a_key_that_nobody_touches_is_let_go_in_time():
    device = VirtualKey()
    await enrol(device)
    device.touched, device.closed = False, False
    with pytest.raises(TimedOut):
        await key_of(device).get(approval(seconds=0.2)[1])
    async with asyncio.timeout(10):
        while not device.closed:
            await asyncio.sleep(0.01)


async def test_a_caller_who_leaves_lets_the_key_go():
    device = VirtualKey()
    await enrol(device)
    device.touched, device.closed = False, False
    said = []
    task = asyncio.create_task(key_of(device, said=said).get(approval()[1]))
    async with asyncio.timeout(10):
        while not said:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while not device.closed:
            await asyncio.sleep(0.01)


@rows(("devices", "text"), [([], "no security key"), ([VirtualKey(), VirtualKey()], "several")])
async def test_there_has_to_be_exactly_one(devices, text):
    with pytest.raises(NoPasskey, match=text):
        await key_of(*devices).get(approval()[1])
    assert all(device.closed for device in devices)


async def test_a_key_that_may_not_be_opened_is_told_of():
    def forbidden():
        raise PermissionError(13, "Permission denied")

    with pytest.raises(NoPasskey, match="Permission denied") as caught:
        await SecurityKey(devices=forbidden, say=print).get(approval()[1])
    assert "udev" in caught.value.advice


@rows("options", [{}, {"challenge": 5}, {"challenge": "AAAA", "allowCredentials": [{"type": "public-key", "id": 5}]}])
async def test_options_that_are_none_are_told_of(options):
    with pytest.raises(NoPasskey):
        await key_of(VirtualKey()).get(Prompt("text", "tool", "server", options, time.time() + 5))


def test_without_the_package_the_advice_is_to_install_it(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.partition(".")[0] == "fido2":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError) as caught:
        SecurityKey()
    assert caught.value.advice == "pip install 'callgate[usb]'"
