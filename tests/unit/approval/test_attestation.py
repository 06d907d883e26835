"""A policy that asks new passkeys who made them: only makers that are listed, only for the models they vouch for."""

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

import cbor2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from callgate.approval import ApprovalSettings, Attestation
from callgate.approval.action import from_base64url, to_base64url
from callgate.errors import Reason, Refused
from support.ceremonies import Scene, authenticator
from support.table import rows

MODEL = UUID("cb69481e-8ff7-4039-93ec-0a2729a154a8")
OTHER = UUID("ee882879-721c-4913-9775-3dfcce97072a")
MODEL_OID = x509.ObjectIdentifier("1.3.6.1.4.1.45724.1.1.4")
NOW = datetime.now(UTC)


def subject(name, unit="Authenticator Attestation"):
    parts = [(NameOID.COUNTRY_NAME, "SE"), (NameOID.ORGANIZATION_NAME, "Maker"), (NameOID.COMMON_NAME, name)]
    parts += [(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def certificate(
    name, key, issuer, issuer_key, *, ca=False, unit="Authenticator Attestation", model=None, days=(-1, 30), extra=None
):
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject(name, unit))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=days[0]))
        .not_valid_after(NOW + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if model is not None:
        value = x509.UnrecognizedExtension(MODEL_OID, b"\x04\x10" + model.bytes)
        builder = builder.add_extension(value, critical=False)
    if extra is not None:
        builder = builder.add_extension(extra, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


class Maker:
    """A made-up maker of authenticators: a root, and certificates for its devices."""

    def __init__(self, name="Root"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = subject(name, None)
        self.root = certificate(name, self.key, self.name, self.key, ca=True, unit=None)

    @property
    def pem(self):
        return self.root.public_bytes(Encoding.PEM)

    def device(self, *, through=False, **more):
        """An authenticator whose registrations this maker signs; `through` puts an authority in between."""
        key, chain, issuer, issuer_key = ec.generate_private_key(ec.SECP256R1()), [], self.name, self.key
        if through:
            middle = ec.generate_private_key(ec.SECP256R1())
            between = certificate("Between", middle, self.name, self.key, ca=True, unit=None)
            chain, issuer, issuer_key = [between], between.subject, middle
        leaf = certificate("Device", key, issuer, issuer_key, **({"model": MODEL} | more))
        der = [one.public_bytes(Encoding.DER) for one in [leaf, *chain]]
        return authenticator(maker=(key, der), aaguid=MODEL.bytes)


async def enrol(policy, key, attestation="packed", **bend):
    scene = Scene(ApprovalSettings(attestation=policy))
    options = await scene.options()
    assert options["attestation"] == policy.conveyance
    return await scene.approvals.finish_enrolment(key.create(options, attestation=attestation, **bend))


async def why_not(policy, key, attestation="packed", **bend):
    with pytest.raises(Refused) as refused:
        await enrol(policy, key, attestation, **bend)
    assert refused.value.reason is Reason.VERIFICATION_FAILED
    return str(refused.value.__cause__)


@rows("through", [False, True], ids=["by-the-root", "through-another"])
async def test_a_listed_maker_is_believed(through):
    maker = Maker()
    policy = Attestation("direct", (maker.pem,))
    enrolled = await enrol(policy, maker.device(through=through))
    assert (enrolled.credential.attestation, enrolled.credential.aaguid) == ("packed", str(MODEL))


async def test_a_file_may_list_several_makers():
    first, second = Maker("First"), Maker("Second")
    policy = Attestation("direct", (first.pem + second.pem,))
    for maker in (first, second):
        assert await enrol(policy, maker.device())


async def test_a_maker_that_is_not_listed_is_not():
    policy = Attestation("direct", (Maker("Listed").pem,))
    # The same name, another key.
    for stranger in (Maker("Listed"), Maker("Stranger")):
        assert "does not hold" in await why_not(policy, stranger.device())


async def test_without_any_list_nobody_is_believed():
    assert "who made it" in await why_not(Attestation("direct"), Maker().device())


@rows("attestation", ["none", "packed"])
async def test_a_passkey_that_vouches_for_itself_proves_nothing(attestation):
    policy = Attestation("direct", (Maker().pem,))
    assert "who made it" in await why_not(policy, authenticator(), attestation)


async def test_a_signature_that_the_makers_key_did_not_make_is_refused():
    maker = Maker()
    policy = Attestation("direct", (maker.pem,))
    assert "does not hold" in await why_not(policy, maker.device(), tamper_signature=True)
    thief = maker.device()
    thief.maker = (ec.generate_private_key(ec.SECP256R1()), thief.maker[1])
    assert "does not hold" in await why_not(policy, thief)


@rows(
    ("flaw", "why"),
    [
        ({"model": OTHER}, "another model"),
        ({"unit": "Web Server"}, "not one for attestation"),
        ({"unit": None}, "not one for attestation"),
        ({"ca": True}, "signs certificates"),
        ({"days": (-30, -1)}, "does not hold"),
        ({"days": (1, 30)}, "does not hold"),
    ],
    ids=str,
)
async def test_a_certificate_for_something_else_is_refused(flaw, why):
    maker = Maker()
    assert why in await why_not(Attestation("direct", (maker.pem,)), maker.device(**flaw))


async def test_a_certificate_that_names_no_model_is_for_any():
    maker = Maker()
    assert await enrol(Attestation("direct", (maker.pem,)), maker.device(model=None))


async def test_only_listed_models_are_taken():
    maker = Maker()
    listed = Attestation("direct", (maker.pem,), frozenset({str(MODEL)}))
    assert await enrol(listed, maker.device())
    unlisted = Attestation("direct", (maker.pem,), frozenset({str(OTHER)}))
    assert "model" in await why_not(unlisted, maker.device())
    # A device cannot claim a model that its certificate is not for.
    liar = maker.device()
    liar.aaguid = OTHER.bytes
    assert "another model" in await why_not(unlisted, liar)


async def test_models_are_looked_at_without_attestation_too():
    policy = Attestation(aaguids=frozenset({str(MODEL)}))
    assert await enrol(policy, authenticator(aaguid=MODEL.bytes), "none")
    assert "model" in await why_not(policy, authenticator(), "none")


async def test_by_default_attestation_is_verified_and_not_judged():
    enrolled = await enrol(Attestation(), Maker().device())
    assert enrolled.credential.attestation == "packed"
    assert "does not hold" in await why_not(Attestation(), Maker().device(), tamper_signature=True)


@rows("chain", [[b"not a certificate"], [b""], [5], ["text"]], ids=repr)
async def test_a_chain_that_is_no_chain_is_refused(chain):
    maker = Maker()
    key = maker.device()
    key.maker = (key.maker[0], chain)
    for policy in (Attestation(), Attestation("direct", (maker.pem,))):
        assert "does not hold" in await why_not(policy, key)


APPLE_NONCE = x509.ObjectIdentifier("1.2.840.113635.100.8.2")


def by_apple(answer, key, maker):
    """The answer as a phone of that maker attests it (WebAuthn §8.8): a certificate for the new key and this very answer."""
    data = cbor2.loads(from_base64url(answer["response"]["attestationObject"]))["authData"]
    client = from_base64url(answer["response"]["clientDataJSON"])
    nonce = hashlib.sha256(data + hashlib.sha256(client).digest()).digest()
    value = x509.UnrecognizedExtension(APPLE_NONCE, b"\x30\x24\xa1\x22\x04\x20" + nonce)
    leaf = certificate("Phone", key, maker.name, maker.key, extra=value).public_bytes(Encoding.DER)
    made = {"fmt": "apple", "attStmt": {"x5c": [leaf]}, "authData": data}
    return answer | {"response": answer["response"] | {"attestationObject": to_base64url(cbor2.dumps(made))}}


async def test_a_maker_that_the_package_knows_has_to_be_listed_here_too(monkeypatch):
    apple, listed = Maker("Apple"), Maker("Listed")
    monkeypatch.setattr("webauthn.registration.formats.apple.apple_webauthn_root_ca", apple.pem)
    for roots, taken in (((listed.pem,), False), ((listed.pem, apple.pem), True)):
        scene, phone = Scene(ApprovalSettings(attestation=Attestation("direct", roots))), authenticator()
        answer = phone.create(await scene.options())
        finish = scene.approvals.finish_enrolment(by_apple(answer, phone.passkeys[0].key, apple))
        if taken:
            assert (await finish).credential.attestation == "apple"
        else:
            with pytest.raises(Refused):
                await finish


async def test_a_root_that_cannot_be_read_lets_nobody_in():
    assert "does not hold" in await why_not(Attestation("direct", (b"no certificate",)), Maker().device())
