"""A directory that publishes a private key: whoever reads it could sign with it, so nobody may."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from callgate.agents.directories import Sources
from callgate.agents.keys import key_set, public_jwk
from callgate.agents.storage import Listed
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import ConfigError, Reason, Refused
from callgate.store.memory import MemoryAgents
from support.agent_directories import world
from support.signed_requests import adding, private, request
from support.table import rows


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


def secret(signer):
    raw = signer._key.private_bytes_raw()
    return dict(signer.jwk) | {"d": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}


async def test_a_key_published_with_its_private_half_is_not_used(ground):
    exposed, honest = (ground.signer(ground.server.url("a.example")) for _ in range(2))
    ground.server.put("a.example", {"keys": [secret(exposed), dict(honest.jwk)]})
    shelf = MemoryAgents()
    directories = ground.directories(shelf=shelf)
    plain = request()
    verifier = Verifier(VerifySettings(), directories.key, MemoryAgents(), ground.clock)
    with pytest.raises(Refused) as caught:
        await verifier.verify(adding(plain, exposed.sign(plain)))
    assert caught.value.reason is Reason.UNKNOWN_KEYID
    # The others of the directory are what they were, and its owner can be told.
    assert (await verifier.verify(adding(plain, honest.sign(plain)))).keyid == honest.keyid
    (shown,) = await directories.show(ground.server.url("a.example"))
    assert any("private" in text for text in shown.left_out)
    # Nothing of it is kept.
    kept = await shelf.directory(ground.server.directory("a.example"))
    assert secret(exposed)["d"].encode() not in kept.body
    assert b'"d"' not in kept.body


@rows("first", ["private", "public"])
async def test_a_second_copy_without_the_private_half_does_not_bring_it_back(ground, first):
    signer = ground.signer()
    copies = [secret(signer), dict(signer.jwk)]
    ground.server.put("a.example", {"keys": copies if first == "private" else copies[::-1]})
    assert await ground.directories().key(signer.keyid, ground.server.url("a.example")) is None


async def test_a_key_that_is_exposed_later_is_given_up(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url) is not None
    ground.server.put("a.example", {"keys": [secret(signer)]})
    ground.clock.now += 300
    assert await directories.key(signer.keyid, url) is None


@rows("member", ["d", "p", "q", "dp", "dq", "qi", "oth", "k"])
@rows("kind", ["ed25519", "p256", "rsa"])
def test_any_private_member_is_enough(kind, member):
    jwk = public_jwk(private(kind).public_key())
    assert len(key_set([jwk], "static").keys) == 1
    for value in ("AQAB", "", None, 7):
        assert not key_set([jwk, jwk | {member: value}], "static").keys


def test_a_shared_secret_is_no_key_of_a_directory():
    assert not key_set([{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}], "static").keys


async def test_an_operator_who_lists_a_private_key_is_told(ground):
    signer = ground.signer()
    jwk = json.dumps(secret(signer)).encode()
    with pytest.raises(ConfigError, match="private"):
        ground.directories(Sources(agents=(Listed("helper", signer.keyid, "static", jwk=jwk),)))
    with pytest.raises(ConfigError, match="private"):
        ground.directories(Sources(self_origin="https://gate.example", self_jwks={"keys": [secret(signer)]}))


def test_keys_without_private_members_are_taken():
    point = public_jwk(ec.generate_private_key(ec.SECP256R1()).public_key())
    assert len(key_set([point], "static").keys) == 1
