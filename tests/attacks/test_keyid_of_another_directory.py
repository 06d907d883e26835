"""A key counts with the directory it came from: nobody gets another agent's name by publishing or naming its key."""

import pytest

from callgate.agents.directories import Sources, StaticDirectory, directory_url
from callgate.agents.model import Verified
from callgate.agents.storage import Listed
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from callgate.store.memory import MemoryAgents
from support.agent_directories import world
from support.registry import requirement
from support.signed_requests import adding, request
from support.table import rows


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def verify(ground, directories, signer, **settings):
    plain = request()
    verifier = Verifier(VerifySettings(**settings), directories.key, MemoryAgents(), ground.clock)
    return await verifier.verify(adding(plain, signer.sign(plain)))


def at(signer, url):
    """The same private key, used with another directory."""
    signer._directory = url
    return signer


@requirement("WB-006")
async def test_a_stolen_key_in_another_directory_is_not_its_former_owner(ground):
    stolen, fresh = ground.signer(), ground.signer(ground.server.url("a.example"))
    shelf = MemoryAgents()
    await shelf.add_agent(Listed("helper", "", ground.server.url("a.example")))
    directories = ground.directories(shelf=shelf)
    # The owner has rotated; whoever has the old key publishes it under a name of their own.
    ground.server.publish("a.example", fresh)
    ground.server.publish("eve.example", stolen)
    owner = await directories.agent(await verify(ground, directories, fresh))
    assert owner.agent == "helper"
    thief = await verify(ground, directories, at(stolen, ground.server.url("eve.example")))
    assert thief.directory == ground.server.directory("eve.example")
    assert await directories.agent(thief) is None
    # Naming the owner's directory does not help: the key is not in it any more.
    with pytest.raises(Refused) as caught:
        await verify(ground, directories, at(stolen, ground.server.url("a.example")))
    assert caught.value.reason is Reason.UNKNOWN_KEYID


@requirement("WB-006")
async def test_the_same_key_in_two_directories_is_two_keys(ground):
    signer = ground.signer()
    for host in ("a.example", "eve.example"):
        ground.server.publish(host, signer)
    one = StaticDirectory({(ground.server.url("a.example"), signer.keyid): "helper"})
    directories = ground.directories(agents=[one])
    names = []
    for host in ("a.example", "eve.example"):
        verified = await verify(ground, directories, at(signer, ground.server.url(host)))
        names.append(await directories.agent(verified))
    assert names[0].agent == "helper"
    assert names[1] is None


@requirement("WB-006")
async def test_a_key_is_not_looked_for_in_directories_of_others(ground):
    """Eve names her own directory and the key of another agent, whose directory was fetched before."""
    honest = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", honest)
    ground.server.publish("eve.example", ground.signer())
    directories = ground.directories()
    assert await verify(ground, directories, honest)
    assert await directories.key(honest.keyid, ground.server.url("eve.example")) is None
    assert await directories.key(honest.keyid) is None


@requirement("WB-006")
async def test_a_kid_that_spells_the_thumbprint_of_another_key_finds_only_its_own(ground):
    honest = ground.signer(ground.server.url("a.example"))
    eve = ground.signer(ground.server.url("eve.example"))
    ground.server.publish("a.example", honest)
    ground.server.publish("eve.example", eve, kid=honest.keyid)
    known = StaticDirectory({(ground.server.url("a.example"), honest.keyid): "helper"})
    own = eve.keyid
    eve.keyid = honest.keyid
    strict = ground.directories(agents=[known])
    with pytest.raises(Refused) as caught:
        await verify(ground, strict, eve)
    assert caught.value.reason is Reason.UNKNOWN_KEYID
    # Even where kids are followed: what goes on is the thumbprint of the key that verified, and its directory.
    lax = ground.directories(Sources(kid_fallback=True), agents=[known])
    verified = await verify(ground, lax, eve, kid_fallback=True)
    assert (verified.keyid, verified.directory) == (own, ground.server.directory("eve.example"))
    assert await lax.agent(verified) is None


@requirement("WB-006")
@rows(
    "other",
    [
        "https://a.example.eve.example",
        "https://eve.example/a.example",
        "https://a.example:444",
        "https://a.example/x",
        "https://a.example/.well-known/http-message-signatures-directory/",
        "https://a.example/.well-known/http-message-signatures-directory?x",
        "static",
    ],
)
async def test_an_address_that_looks_alike_is_another_directory(other):
    listed = StaticDirectory({"https://a.example": "helper"})
    found = [
        await listed.agent(Verified("sig1", "x" * 43, "ed25519", directory_url(one), 0, 0, None, ()))
        for one in ("https://A.example:443/", other)
    ]
    assert found[0].agent == "helper"
    assert found[1] is None
