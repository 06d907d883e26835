"""The agent's side: what the signer makes, the verifier takes; with every kind of key and beside other signatures."""

import pytest

from callgate.agents.keys import RSA_PSS_256, PublicKey
from callgate.agents.signing import Signer
from callgate.agents.verifying import SignedMessage, SignedResponse, content_digest, inputs, signature_base, signatures
from callgate.errors import Reason, Refused
from support.registry import requirement
from support.signed_requests import AGENT, BODY, NOW, Found, adding, change, private, refusal, request, verify
from support.table import rows


def signer(kind="ed25519", directory=AGENT, **options):
    return Signer(private(kind), directory, clock=lambda: NOW + 0.9, **options)


def sent(signed, headers):
    """The request with the signer's headers set, each in place of those of its name."""
    names = {name.lower().encode() for name in headers}
    return adding(change(signed, headers=tuple(pair for pair in signed.headers if pair[0] not in names)), headers)


@rows("legacy", [False, True])
@rows("kind", ["ed25519", "p256", "rsa"])
@requirement("WB-001", "WB-008", "WB-009", "WB-018")
async def test_what_is_signed_verifies(kind, legacy):
    by = signer(kind)
    headers = by.sign(request(query="a=1"), legacy=legacy)
    assert list(headers) == ["Content-Digest", "Signature-Agent", "Signature-Input", "Signature"]
    found = Found(PublicKey.read(by.jwk, AGENT))
    got = await verify(sent(request(query="a=1"), headers), lookup=found, content_digest="required")
    assert (got.keyid, got.created, got.expires, got.digest_verified) == (by.keyid, NOW, NOW + 60, True)
    assert found.asked == [(by.keyid, AGENT)]
    assert len(got.nonce) == 64


async def test_the_older_algorithm():
    by = signer("rsa", algorithm=RSA_PSS_256)
    signed = sent(request(), by.sign(request()))
    assert (await verify(signed, keys=[PublicKey.read(by.jwk)], rsa_pss_sha256=True)).algorithm == RSA_PSS_256
    assert await refusal(signed, keys=[PublicKey.read(by.jwk)]) == (400, "unsupported_alg")


@rows(("kind", "algorithm"), [("ed25519", RSA_PSS_256), ("p256", "ed25519"), ("rsa", "hmac-sha256")])
def test_a_key_signs_only_with_what_it_is_for(kind, algorithm):
    with pytest.raises(Refused) as caught:
        signer(kind, algorithm=algorithm)
    assert caught.value.reason is Reason.UNSUPPORTED_ALG


async def test_without_directory_and_digest():
    headers = signer(directory=None).sign(request(), digest=False, nonce="mine", expires_in=5)
    assert list(headers) == ["Signature-Input", "Signature"]
    got = await verify(sent(request(), headers))
    assert (got.nonce, got.expires, got.digest_verified) == ("mine", NOW + 5, False)


async def test_beside_a_signature_that_is_there():
    first = sent(request(), signer(label="one").sign(request()))
    second = signer(label="two")
    both = sent(first, second.sign(first))
    found = Found(PublicKey.read(second.jwk, AGENT))
    assert (await verify(both, lookup=found)).others == {}
    assert [directory for _, directory in found.asked] == [AGENT, AGENT]
    with pytest.raises(Refused):
        signer(label="one").sign(first)


async def test_a_digest_that_is_there_is_covered_as_it_is():
    given = adding(request(), {"content-digest": content_digest(BODY, "sha-512")})
    headers = signer().sign(given)
    assert "Content-Digest" not in headers
    assert (await verify(sent(given, headers))).digest_verified is True


async def test_components_with_parameters_can_be_covered():
    given = adding(request(query="q=x"), {"x-dict": "a=1, b=2"})
    covered = ["@target-uri", '"@query-param";name="q"', '"x-dict";key="b"', "content-type"]
    got = await verify(sent(given, signer().sign(given, covered=covered)))
    assert got.covered[:4] == ('"@target-uri"', '"@query-param";name="q"', '"x-dict";key="b"', '"content-type"')


def test_a_directory_that_is_no_ascii_is_refused():
    with pytest.raises(Refused):
        signer(directory="https://bücher.example").sign(request())


def test_the_answer_of_a_directory_is_signed_for_its_host():
    asked = request(method="GET", authority="keys.example", path="/.well-known/x", headers=(), body=b"")
    answer = SignedResponse(200, (), asked, b'{"keys":[]}')
    by = signer()
    headers = tuple((name.lower().encode(), text.encode()) for name, text in by.sign_answer(answer).items())
    message = SignedMessage(SignedResponse(200, headers, asked, answer.body))
    given = inputs(message.header(b"signature-input"))["sig1"]
    assert given.params["tag"] == "http-message-signatures-directory"
    assert [one.text for one in given.components] == ['"@authority";req', '"content-digest"']
    signature = signatures(message.header(b"signature"))["sig1"]
    key = PublicKey.read(by.jwk)
    assert key.verifies("ed25519", signature, signature_base(given, message))
    elsewhere = SignedMessage(SignedResponse(200, headers, change(asked, authority="other.example"), answer.body))
    assert not key.verifies("ed25519", signature, signature_base(given, elsewhere))


def test_nonces_differ():
    by = signer()
    assert len({by.sign(request())["Signature-Input"] for _ in range(100)}) == 100
