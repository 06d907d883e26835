"""What was checked is not what is used: a name that resolves twice, a directory that answers twice, a header swapped."""

import asyncio

import pytest

from callgate.agents.directories import Sources
from callgate.agents.fetching import Fetcher, FetchFailed, Reach, _only
from callgate.agents.model import WELL_KNOWN
from callgate.agents.storage import Listed
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from callgate.store.memory import MemoryAgents
from support.agent_directories import Page, listening, world
from support.registry import requirement
from support.signed_requests import adding, request

# Stands for an address outside; 127.0.0.1 is what must not be reached.
OUTSIDE = "127.0.0.2"
REACH = Reach(networks=(f"{OUTSIDE}/32",))


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def refusal(ground, directories, sent):
    verifier = Verifier(VerifySettings(), directories.key, MemoryAgents(), ground.clock)
    with pytest.raises(Refused) as caught:
        await verifier.verify(sent)
    return caught.value.reason


@requirement("WB-011")
async def test_a_name_that_turns_inward_after_the_check_leads_nowhere(ground, monkeypatch):
    answers = [[OUTSIDE], ["127.0.0.1"]]
    asked = []

    async def rebinding(host, _port):
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    async def system(host, *_args, **_more):
        asked.append(f"the system, for {host}")
        return []

    async with listening(OUTSIDE, ground.server.port) as outside:
        outside.put("eve.example", {"keys": []})
        fetcher = Fetcher(REACH, resolve=rebinding, trusted=ground.trusted)
        plain = asyncio.get_running_loop().getaddrinfo

        async def watched(host, *args, **more):
            return await (plain if host == OUTSIDE else system)(host, *args, **more)

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", watched, raising=False)
        answer = await fetcher.fetch(ground.server.directory("eve.example"))
        assert answer.body
        assert outside.connections == 1
    # Looked up once, and the connection went to that answer.
    assert asked == ["eve.example"]
    assert ground.server.connections == 0
    # Looked up again, it is checked again.
    with pytest.raises(FetchFailed, match="not public"):
        await fetcher.fetch(ground.server.directory("eve.example"))
    assert ground.server.connections == 0


@requirement("WB-011")
async def test_a_name_that_is_outside_and_inside_at_once_leads_nowhere(ground):
    ground.dns["eve.example"] = [OUTSIDE, "127.0.0.1"]
    signer = ground.signer(ground.server.url("eve.example"))
    ground.server.publish("eve.example", signer)
    plain = request()
    sent = adding(plain, signer.sign(plain))
    assert await refusal(ground, ground.directories(reach=REACH), sent) is Reason.UNKNOWN_KEYID
    assert ground.server.connections == 0


def test_a_connection_to_any_other_address_is_refused_at_the_last_moment():
    make = _only(("93.184.216.34",))
    with pytest.raises(OSError, match="another address"):
        make((2, 1, 6, "", ("127.0.0.1", 443)))


async def test_a_directory_that_is_swapped_in_the_header_spoils_the_signature(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    ground.server.publish("eve.example", signer)
    plain = request()
    headers = signer.sign(plain)
    honest = headers["Signature-Agent"]
    swapped = honest.replace("a.example", "eve.example")
    assert honest != swapped
    sent = adding(plain, headers | {"Signature-Agent": swapped})
    assert await refusal(ground, ground.directories(), sent) is Reason.SIGNATURE_INVALID
    # A second member beside the signed one changes nothing of whose it is.
    beside = adding(plain, headers | {"Signature-Agent": f'eve="{ground.server.url("eve.example")}", {honest}'})
    verifier = Verifier(VerifySettings(), ground.directories().key, MemoryAgents(), ground.clock)
    assert (await verifier.verify(beside)).directory == ground.server.directory("a.example")


async def test_a_directory_that_answers_otherwise_the_second_time_gains_nothing(ground):
    """The document whose digest was signed is the one whose keys count: it is fetched once."""
    honest, added = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", honest)
    ground.server.sign("a.example", honest)
    signed = ground.server.pages["a.example", WELL_KNOWN]
    ground.server.publish("a.example", honest, added)
    swapped = ground.server.pages["a.example", WELL_KNOWN]
    answers = iter([signed, swapped, Page(swapped.body, signed.headers)])

    async def next_one(writer):
        await ground.server._answer(next(answers), writer)

    ground.server.pages["a.example", WELL_KNOWN] = Page(write=next_one)
    directories = ground.directories(Sources(signed="required"))
    for _ in range(3):
        assert await directories.key(honest.keyid, url) is not None
        assert await directories.key(added.keyid, url) is None
        ground.clock.now += 300
    assert ground.server.hits("a.example") == 3


async def test_a_directory_taken_over_does_not_take_the_agents_of_others(ground):
    """Eve answers for her own host; what she publishes there is hers, whatever it says."""
    eve = ground.signer(ground.server.url("eve.example"))
    ground.server.publish("eve.example", eve, kid="a.example", iss=ground.server.url("a.example"))
    shelf = MemoryAgents()
    await shelf.add_agent(Listed("helper", "", ground.server.url("a.example")))
    directories = ground.directories(shelf=shelf)
    plain = request()
    verifier = Verifier(VerifySettings(), directories.key, MemoryAgents(), ground.clock)
    verified = await verifier.verify(adding(plain, eve.sign(plain)))
    assert await directories.agent(verified) is None
