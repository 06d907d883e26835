"""Where keys come from: configured, discovered, our own, inside a request; and that a key counts only with its place."""

import base64
import json

import pytest

from callgate.agents.directories import Sources, directory_url
from callgate.agents.directories.lookup import directory_place, pattern
from callgate.agents.keys import PublicKey
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN
from callgate.agents.storage import Listed
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import ConfigError, Reason, Refused
from callgate.store.memory import MemoryAgents
from support.agent_directories import world
from support.registry import requirement
from support.signed_requests import adding, request
from support.table import rows


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def verify(ground, directories, signer, **options):
    """A whole request, signed and verified with keys from the directories."""
    legacy = options.pop("legacy", False)
    verifier = Verifier(VerifySettings(**options), directories.key, MemoryAgents(), ground.clock)
    plain = request()
    return await verifier.verify(adding(plain, signer.sign(plain, legacy=legacy)))


async def refused(ground, directories, signer, **options):
    with pytest.raises(Refused) as caught:
        await verify(ground, directories, signer, **options)
    return caught.value.reason, caught.value.status


@requirement("WB-004", "WB-007", "WB-008", "WB-047")
async def test_the_directory_that_a_request_names_is_fetched_at_its_well_known_path(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    verified = await verify(ground, ground.directories(), signer)
    assert verified.keyid == signer.keyid
    assert verified.directory == ground.server.directory("a.example")
    assert [one.path for one in ground.server.asked] == [WELL_KNOWN]


@requirement("WB-009")
async def test_the_older_form_of_the_header_finds_the_same_directory(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    verified = await verify(ground, ground.directories(), signer, legacy=True)
    assert verified.directory == ground.server.directory("a.example")


@requirement("WB-010")
async def test_a_directory_that_is_named_but_not_covered_is_not_fetched(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    plain = request()
    sent = adding(plain, signer.sign(plain) | {"Signature-Agent": f'sig1="{ground.server.url("a.example")}"'})
    verifier = Verifier(VerifySettings(), ground.directories().key, MemoryAgents(), ground.clock)
    with pytest.raises(Refused) as caught:
        await verifier.verify(sent)
    assert caught.value.reason is Reason.MISSING_REQUIRED_COVERED_FIELD
    assert ground.server.asked == []


@requirement("WB-067")
async def test_a_key_that_no_directory_has_is_unknown(ground):
    ground.server.publish("a.example", ground.signer())
    signer = ground.signer(ground.server.url("a.example"))
    assert await refused(ground, ground.directories(), signer) == (Reason.UNKNOWN_KEYID, 401)
    assert await refused(ground, ground.directories(), ground.signer()) == (Reason.UNKNOWN_KEYID, 401)


@requirement("WB-033")
async def test_nothing_is_fetched_that_nobody_named(ground):
    directories = ground.directories()
    assert await directories.key(ground.signer().keyid) is None
    assert (ground.server.asked, ground.looked_up) == ([], [])
    await directories.key(ground.signer().keyid, ground.server.url("a.example"))
    assert ground.looked_up == ["a.example"]


@requirement("WB-046")
async def test_a_configured_directory_needs_no_header(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),)))
    assert (await verify(ground, directories, signer)).directory == ground.server.directory("a.example")


@requirement("WB-046")
async def test_a_configured_directory_comes_before_the_one_that_is_named(ground):
    signer = ground.signer(ground.server.url("b.example"))
    ground.server.publish("a.example", signer)
    ground.server.publish("b.example", signer)
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),)))
    assert (await verify(ground, directories, signer)).directory == ground.server.directory("a.example")
    assert ground.server.hits("b.example") == 0


async def test_only_an_operator_names_a_directory_at_a_path_of_its_own(ground):
    place = f"{ground.server.url('a.example')}/keys.json"
    signer = ground.signer()
    ground.server.publish("a.example", signer, path="/keys.json")
    verified = await verify(ground, ground.directories(Sources(jwks_urls=(place,))), signer)
    assert verified.directory == place


@requirement("WB-048")
async def test_a_named_directory_is_not_fetched_where_such_names_are_ignored(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer)
    directories = ground.directories(Sources(discovery="ignore"))
    assert await refused(ground, directories, signer) == (Reason.UNKNOWN_KEYID, 401)
    assert (ground.server.asked, ground.looked_up) == ([], [])


@requirement("WB-047")
def test_names_in_requests_are_followed_by_default():
    assert Sources().discovery == "trust"
    assert Sources().jwks_urls == ()


async def test_only_allowed_directories_are_fetched(ground):
    inside, outside = (ground.signer(ground.server.url(host)) for host in ("x.bots.example", "a.example"))
    ground.server.publish("x.bots.example", inside)
    ground.server.publish("a.example", outside)
    directories = ground.directories(
        Sources(discovery="allow", allowed=(f"https://*.bots.example:{ground.server.port}",))
    )
    assert (await verify(ground, directories, inside)).keyid == inside.keyid
    assert await refused(ground, directories, outside) == (Reason.UNKNOWN_KEYID, 401)
    assert ground.server.hits("a.example") == 0


@rows(
    ("allowed", "url", "fits"),
    [
        ("https://a.example", "https://a.example", True),
        ("https://a.example/", "https://a.example", True),
        ("https://a.example:443", "https://a.example", True),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a.example:8443", "https://a.example:8443", True),
        ("https://a.example", "https://a.example/other", False),
        ("https://a.example", "https://a.example.evil.example", False),
        ("https://*.a.example", "https://b.a.example", True),
        ("https://*.a.example", "https://a.example", False),
        ("https://*.a.example", "https://eviL-a.example", False),
        ("https://*", "https://anything.example", True),
        ("https://*", "https://anything.example/user/file", False),
    ],
)
def test_what_a_pattern_allows(allowed, url, fits):
    assert pattern(allowed).fits(directory_place(url)) is fits


@rows(
    "text",
    ["a.example", "*", "https://a.*", "https://a*.example", "https://a.example/keys", "https://a.example/../*", ""],
)
def test_a_pattern_that_could_mean_more_than_it_seems_is_refused(text):
    with pytest.raises(ConfigError):
        pattern(text)


@requirement("WB-049")
async def test_our_own_origin_is_not_fetched(ground):
    signer = ground.signer("https://gate.example")
    directories = ground.directories(
        Sources(self_origin="https://gate.example", self_jwks={"keys": [dict(signer.jwk)]})
    )
    assert (await verify(ground, directories, signer)).directory == "self"
    stranger = ground.signer("https://gate.example/other/path")
    assert await refused(ground, directories, stranger) == (Reason.UNKNOWN_KEYID, 401)
    assert (ground.server.asked, ground.looked_up) == ([], [])


@requirement("WB-049")
async def test_our_own_keys_count_for_our_own_origin_only(ground):
    signer = ground.signer()
    directories = ground.directories(
        Sources(self_origin="http://localhost:8080", self_jwks={"keys": [dict(signer.jwk)]})
    )
    assert await directories.key(signer.keyid, "http://localhost:8080") is not None
    assert await directories.key(signer.keyid, ground.server.url("a.example")) is None
    assert await directories.key(signer.keyid) is None
    assert Sources().self_jwks is None


def inline(signer, *, kind=DIRECTORY_TYPE, b64=True):
    raw = json.dumps({"keys": [dict(signer.jwk)]}).encode()
    if not b64:
        return f"data:{kind}," + "".join(f"%{byte:02x}" for byte in raw)
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"


@requirement("WB-093")
async def test_keys_inside_a_request_are_refused(ground):
    signer = ground.signer()
    named = ground.signer(inline(signer))
    assert await refused(ground, ground.directories(), named) == (Reason.UNKNOWN_KEYID, 401)
    told = await ground.directories().why(signer.keyid, inline(signer))
    assert (told.steps[-1].where, told.steps[-1].outcome, told.directory) == ("data:", "refused", "")
    assert Sources().inline_keys == ()


@requirement("WB-093")
@rows("b64", [True, False])
async def test_a_key_inside_a_request_counts_where_its_thumbprint_is_allowed(ground, b64):
    allowed, other = ground.signer(), ground.signer()
    directories = ground.directories(Sources(inline_keys=(allowed.keyid,)))
    found = await directories.key(allowed.keyid, inline(allowed, b64=b64))
    assert (found.thumbprint, found.directory) == (allowed.keyid, "data:")
    assert await directories.key(other.keyid, inline(other, b64=b64)) is None
    assert await directories.key(allowed.keyid, inline(allowed, kind="application/json")) is None
    assert await directories.key(allowed.keyid, "data:,") is None
    assert await directories.key(allowed.keyid, inline(allowed).replace("base64,", "base64,*")) is None
    assert await directories.key(allowed.keyid, inline(allowed) + "A" * 20_000) is None
    assert ground.looked_up == []


@requirement("WB-093")
async def test_a_whole_request_with_an_allowed_key_inside_verifies(ground):
    signer = ground.signer()
    signer._directory = inline(signer)
    directories = ground.directories(Sources(inline_keys=(signer.keyid,)))
    assert (await verify(ground, directories, signer)).directory == "data:"


@requirement("WB-005")
async def test_a_kid_stands_for_a_thumbprint_only_with_the_option(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer, kid="old-name")
    signer.keyid = "old-name"
    assert await refused(ground, ground.directories(), signer) == (Reason.UNKNOWN_KEYID, 401)
    directories = ground.directories(Sources(kid_fallback=True))
    verified = await verify(ground, directories, signer, kid_fallback=True)
    # The name that goes on is the key's, not the one its publisher chose.
    assert verified.keyid == PublicKey.read(signer.jwk).thumbprint
    assert not Sources().kid_fallback


async def test_a_key_is_used_only_in_its_time(ground):
    signer = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", signer, nbf=int(ground.clock.now) + 10, exp=int(ground.clock.now) + 20)
    directories = ground.directories()
    found = []
    for _ in range(3):
        found.append(await directories.key(signer.keyid, ground.server.url("a.example")) is not None)
        ground.clock.now += 10
    assert found == [False, True, False]


async def test_a_key_that_was_given_whole_needs_no_directory(ground):
    signer = ground.signer(ground.server.url("a.example"))
    shelf = MemoryAgents()
    directories = ground.directories(shelf=shelf)
    await shelf.add_agent(Listed("helper", signer.keyid, "static", jwk=json.dumps(dict(signer.jwk)).encode()))
    assert (await verify(ground, directories, signer)).directory == "static"
    assert await shelf.remove_agent("helper") == 1
    assert await refused(ground, directories, signer) == (Reason.UNKNOWN_KEYID, 401)


@rows(
    "sources",
    [
        lambda: Sources(jwks_urls=("http://a.example",)),
        lambda: Sources(agent_urls=("a.example",)),
        lambda: Sources(discovery="allow"),
        lambda: Sources(self_jwks={"keys": []}),
        lambda: Sources(self_origin="https://a.example", self_jwks={"keys": [{"kty": "oct", "k": "AA"}]}),
        lambda: Sources(agents=(Listed("two words", "", "https://a.example"),)),
        lambda: Sources(agents=(Listed("a", "x" * 43, "static"),)),
    ],
)
async def test_settings_that_cannot_work_are_refused_at_the_start(ground, sources):
    with pytest.raises(ConfigError):
        ground.directories(sources())


def test_an_origin_stands_for_its_well_known_path():
    for text in ("https://a.example", "https://A.example:443/", f"https://a.example{WELL_KNOWN}"):
        assert directory_url(text) == f"https://a.example{WELL_KNOWN}"
    assert directory_url("static") == "static"


async def test_why_tells_each_place_that_was_looked_at(ground):
    signer = ground.signer()
    ground.server.publish("b.example", signer)
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),)))
    told = await directories.why(signer.keyid, ground.server.url("b.example"))
    assert [(step.where, step.outcome) for step in told.steps] == [
        ("static", "absent"),
        (ground.server.directory("a.example"), "failed"),
        (ground.server.directory("b.example"), "found"),
    ]
    assert told.steps[1].text.startswith("bad_status: ")
    assert (told.reason, told.directory) == ("", ground.server.directory("b.example"))
    told = await directories.why("x" * 43, "http://b.example")
    assert (told.reason, told.steps[1].outcome) == ("unknown_keyid", "refused")
