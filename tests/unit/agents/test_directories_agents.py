"""Which agent a key belongs to: lists, documents, directories that others write; and that a key alone is nobody."""

import json

import pytest

from callgate.agents.authenticator import Authenticator, VerifyOptions
from callgate.agents.directories import AgentIdentity, Composed, Sources, StaticDirectory
from callgate.agents.directories.lookup import read_agents
from callgate.agents.fetching import Reach
from callgate.agents.keys import BadKeys, thumbprint
from callgate.agents.model import Verified
from callgate.agents.storage import Listed
from callgate.errors import Reason
from callgate.store.memory import MemoryAgents
from support.agent_directories import world
from support.registry import requirement
from support.signed_requests import adding, request
from support.table import rows

NAME = "x" * 43
OTHER = "y" * 43
PATH = "/agents.json"


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


def verified(directory, keyid=NAME):
    return Verified("sig1", keyid, "ed25519", directory, 0, 0, None, ())


async def decide(ground, directories, signer):
    """A whole request through the whole gate."""
    options = VerifyOptions(nonces=MemoryAgents(), now=ground.clock)
    gate = Authenticator(directories.key, verify=options, directory=directories)
    plain = request()
    return await gate.authorize(adding(plain, signer.sign(plain)))


@requirement("WB-031")
@rows("keyed", ["directory", "key of a directory"])
async def test_an_agent_of_the_configuration_is_known(ground, keyed):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    name = signer.keyid if keyed == "key of a directory" else ""
    directories = ground.directories(Sources(agents=(Listed("helper", name, ground.server.url("a.example")),)))
    decision = await decide(ground, directories, signer)
    assert decision.caller.id == "helper"


@requirement("WB-031")
async def test_a_map_is_a_directory():
    static = StaticDirectory({"https://a.example": "one", ("https://b.example", NAME): "two", OTHER: "three"})
    at = "https://{}.example/.well-known/http-message-signatures-directory"
    assert await static.agent(verified(at.format("a"))) == AgentIdentity("one", by="static")
    assert await static.agent(verified(at.format("b"))) == AgentIdentity("two", by="static")
    assert await static.agent(verified(at.format("b"), OTHER)) is None
    assert await static.agent(verified("static", OTHER)) == AgentIdentity("three", by="static")
    assert await static.agent(verified(at.format("c"))) is None


@rows("agents", [{"short": "a"}, {NAME: "two words"}, {NAME: ""}, {NAME: 7}, {"http://a.example": "a"}])
def test_a_map_that_cannot_be_meant_is_refused(agents):
    with pytest.raises(Exception, match=r"thumbprint|name|https|text") as caught:
        StaticDirectory(agents)
    assert isinstance(caught.value, BadKeys)


@requirement("WB-030")
@rows("form", ["list", "map"])
async def test_agents_are_looked_up_in_a_document(ground, form):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    entry = {"agentId": "helper", "keyid": signer.keyid, "directory": ground.server.url("a.example"), "name": "Helper"}
    agents = {"agents": [entry]} if form == "list" else {ground.server.url("a.example"): "helper"}
    ground.server.put("agents.example", agents, path=PATH)
    directories = ground.directories(Sources(agent_urls=(ground.server.url("agents.example") + PATH,)))
    decision = await decide(ground, directories, signer)
    assert decision.caller.id == "helper"
    assert decision.caller.name == ("Helper" if form == "list" else "")


@requirement("WB-030")
async def test_a_document_may_map_keys_of_configured_directories(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.put("agents.example", {signer.keyid: "helper"}, path=PATH)
    directories = ground.directories(
        Sources(jwks_urls=(ground.server.url("a.example"),), agent_urls=(ground.server.url("agents.example") + PATH,))
    )
    assert (await decide(ground, directories, signer)).caller.id == "helper"


@requirement("WB-006", "WB-030")
@rows("alone", [False, True])
async def test_a_document_may_name_a_key_without_its_directory_only_where_that_is_asked_for(ground, alone):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    ground.server.put("agents.example", {signer.keyid: "helper"}, path=PATH)
    directories = ground.directories(
        Sources(agent_urls=(ground.server.url("agents.example") + PATH,), keyid_alone=alone)
    )
    decision = await decide(ground, directories, signer)
    assert decision.ok is alone
    assert not Sources().keyid_alone


def test_a_document_that_could_never_count_is_refused_with_the_form_that_is_meant():
    for document in ({NAME: "helper"}, {"agents": [{"agentId": "helper", "keyid": NAME}]}):
        raw = json.dumps(document).encode()
        with pytest.raises(BadKeys, match=r'"directory": "https://agent\.example"'):
            read_agents("https://agents.example/x", raw, Reach(), alone=False)
        assert read_agents("https://agents.example/x", raw, Reach()).names() == {"helper"}


@requirement("WB-077")
async def test_an_agent_that_nobody_listed_is_refused(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    directories = ground.directories(Sources(agents=(Listed("other", "", ground.server.url("b.example")),)))
    decision = await decide(ground, directories, signer)
    assert (decision.reason, decision.status) == (Reason.AGENT_NOT_IN_DIRECTORY, 403)
    told = await directories.why(signer.keyid, ground.server.url("a.example"))
    assert told.reason == "agent_not_in_directory"


@requirement("WB-077")
async def test_a_document_that_cannot_be_had_lists_nobody(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    directories = ground.directories(Sources(agent_urls=(ground.server.url("agents.example") + PATH,)))
    assert (await decide(ground, directories, signer)).reason == Reason.AGENT_NOT_IN_DIRECTORY


@requirement("WB-035")
async def test_without_a_directory_of_agents_the_key_is_the_name(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    decision = await decide(ground, ground.directories(), signer)
    assert decision.caller.id == signer.keyid == thumbprint(signer.jwk)


async def test_only_listed_agents_may_be_asked_for_before_any_is_listed(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    decision = await decide(ground, ground.directories(Sources(listed_only=True)), signer)
    assert decision.reason == Reason.AGENT_NOT_IN_DIRECTORY


@requirement("WB-020")
async def test_a_directory_that_somebody_else_wrote_decides_the_name(ground):
    class Registry:
        async def agent(self, verified):
            return AgentIdentity(f"partner-{verified.keyid[:4]}", "Partner") if verified.directory else None

    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    decision = await decide(ground, ground.directories(agents=[Registry()]), signer)
    assert decision.caller.id == f"partner-{signer.keyid[:4]}"
    forwarded = dict(decision.forward_headers())
    assert forwarded[b"callgate-agent"] == decision.caller.id.encode()


@requirement("WB-020")
async def test_a_directory_that_breaks_lets_nobody_in(ground):
    class Broken:
        async def agent(self, _verified):
            raise RuntimeError

    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    assert not (await decide(ground, ground.directories(agents=[Broken()]), signer)).ok


@requirement("WB-032")
async def test_directories_are_asked_in_turn():
    first = StaticDirectory({("https://a.example", NAME): "one"})
    second = StaticDirectory({"https://a.example": "two", "https://b.example": "three"})
    both = Composed(first, second)
    at = "https://{}.example/.well-known/http-message-signatures-directory"
    assert (await both.agent(verified(at.format("a")))).agent == "one"
    assert (await both.agent(verified(at.format("a"), OTHER))).agent == "two"
    assert (await both.agent(verified(at.format("b")))).agent == "three"
    assert await both.agent(verified(at.format("c"))) is None


@requirement("WB-032")
async def test_a_key_that_only_the_second_directory_has_is_found(ground):
    signer = ground.signer()
    ground.server.publish("a.example", ground.signer())
    ground.server.publish("b.example", signer)
    directories = ground.directories(
        Sources(jwks_urls=(ground.server.url("a.example"), ground.server.url("b.example")))
    )
    assert (await decide(ground, directories, signer)).ok


async def test_an_agent_keeps_its_name_when_its_key_changes(ground):
    old, new = (ground.signer(ground.server.url("a.example")) for _ in range(2))
    shelf = MemoryAgents()
    await shelf.add_agent(Listed("helper", "", ground.server.url("a.example")))
    directories = ground.directories(shelf=shelf)
    ground.server.publish("a.example", old)
    assert (await decide(ground, directories, old)).caller.id == "helper"
    ground.server.publish("a.example", new)
    ground.clock.now += 300
    assert (await decide(ground, directories, new)).caller.id == "helper"
    assert not (await decide(ground, directories, old)).ok


async def test_an_agent_that_is_added_or_removed_elsewhere_is_noticed(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    shelf = MemoryAgents()
    directories = ground.directories(Sources(listed_only=True), shelf=shelf)
    assert not (await decide(ground, directories, signer)).ok
    await shelf.add_agent(Listed("helper", signer.keyid, ground.server.directory("a.example")))
    assert (await decide(ground, directories, signer)).caller.id == "helper"
    await shelf.remove_agent("helper")
    assert not (await decide(ground, directories, signer)).ok


@rows(
    "document",
    [
        [],
        {"agents": 7},
        "text",
        {"agents": [7]},
        {"agents": [{"agentId": "a"}]},
        {"agents": [{"keyid": NAME}]},
        {"agents": [{"agentId": "a", "keyid": "short"}]},
        {"agents": [{"agentId": "a b", "keyid": NAME}]},
        {"agents": [{"agentId": "a", "keyid": NAME, "directory": "http://a.example"}]},
        {"agents": [{"agentId": "a", "keyid": NAME}, {"agentId": "b", "keyid": NAME}]},
        {"agents": [{"agentId": n, "directory": "https://a.example"} for n in "ab"]},
        {NAME: {"agent": "a"}},
    ],
)
async def test_a_document_that_could_be_read_in_two_ways_lists_nobody(ground, document):
    ground.server.put("agents.example", document, path=PATH)
    directories = ground.directories(Sources(agent_urls=(ground.server.url("agents.example") + PATH,)))
    for directory in ("static", "https://a.example/.well-known/http-message-signatures-directory"):
        assert await directories.agent(verified(directory)) is None


async def test_what_cannot_be_taken_of_the_store_is_told(ground):
    signer = ground.signer()
    shelf = MemoryAgents()
    await shelf.add_agent(Listed("one", OTHER, "static", jwk=json.dumps(dict(signer.jwk)).encode()))
    await shelf.add_agent(Listed("two", signer.keyid, "static", jwk=b"garbage"))
    await shelf.add_agent(Listed("three", signer.keyid, "http://a.example"))
    roster = await ground.directories(shelf=shelf).roster()
    assert len(roster) == 0
    assert len(roster.problems) == 3
