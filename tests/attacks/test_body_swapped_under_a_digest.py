"""Keep the signature and swap the body: under a digest that is covered, that is not, that is missing or is somebody else's."""

import pytest

from callgate.agents.keys import PublicKey
from callgate.agents.signing import Signer
from callgate.agents.verifying import content_digest
from support.registry import requirement
from support.signed_requests import AGENT, BODY, NOW, adding, change, private, refusal, replacing, request, sign, verify
from support.table import rows

EVIL = BODY.replace(b"search", b"delete_everything")
REQUIRED = {"content_digest": "required"}


def swapped(signed, *, digest=None):
    """Another body; and the digest of it, or none, in place of the one that was sent."""
    other = change(signed, body=EVIL)
    return other if digest is None else replacing(other, "content-digest", lambda _: digest.encode())


@pytest.fixture
def covered():
    return sign(adding(request(), {"content-digest": content_digest(BODY)}), '"@authority" "content-digest"')


@requirement("WB-075", "WB-088")
async def test_under_a_digest_that_is_covered(covered):
    assert (await verify(covered, **REQUIRED)).digest_verified is True
    assert await refusal(swapped(covered), **REQUIRED) == (401, "content_digest_mismatch")
    # With the digest made to fit, the signature does not.
    assert await refusal(swapped(covered, digest=content_digest(EVIL)), **REQUIRED) == (401, "signature_invalid")
    assert await refusal(swapped(covered, digest=content_digest(EVIL, "sha-512")), **REQUIRED) == (
        401,
        "signature_invalid",
    )


@requirement("WB-073", "WB-088")
async def test_under_a_digest_that_is_not_covered():
    signed = sign(adding(request(), {"content-digest": content_digest(BODY)}), '"@authority"')
    other = swapped(signed, digest=content_digest(EVIL))
    assert await refusal(other, **REQUIRED) == (401, "content_digest_required")
    # Where nobody asks for a bound body it is let through, and said to be unbound.
    assert (await verify(other)).digest_verified is False


@requirement("WB-072", "WB-088")
async def test_with_the_digest_taken_away(covered):
    bare = change(covered, body=EVIL, headers=tuple(p for p in covered.headers if p[0] != b"content-digest"))
    assert await refusal(bare, **REQUIRED) == (400, "content_digest_required")
    assert await refusal(bare) == (400, "unsupported_covered_field")


@rows("name", ["repr-digest", "digest", "content-md5", "x-content-digest"])
@requirement("WB-072")
async def test_another_header_is_no_digest(name):
    signed = sign(adding(request(), {name: content_digest(BODY)}), f'"@authority" "{name}"')
    assert await refusal(signed, **REQUIRED) == (400, "content_digest_required")


@requirement("WB-074")
async def test_a_digest_that_came_as_a_trailer_or_of_another_message(covered):
    for component in ('"content-digest";tr', '"content-digest";req'):
        text = component.encode()
        odd = replacing(covered, "signature-input", lambda raw, text=text: raw.replace(b'"content-digest"', text))
        assert await refusal(odd, **REQUIRED) in {
            (400, "unsupported_covered_field"),
            (401, "content_digest_required"),
        }


@requirement("WB-075", "WB-088")
async def test_bodies_that_differ_in_one_byte_or_in_spelling_only():
    by = Signer(private(), AGENT, clock=lambda: NOW)
    signed = adding(request(), by.sign(request()))
    keys = [PublicKey.read(by.jwk, AGENT)]
    assert (await verify(signed, keys=keys)).digest_verified is True
    for body in (BODY + b"\n", b" " + BODY, BODY.replace(b":", b": "), b"", BODY[:-1], BODY.decode().encode("utf-16")):
        assert await refusal(change(signed, body=body), keys=keys, **REQUIRED) == (401, "content_digest_mismatch")
