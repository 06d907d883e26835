"""Directories that sign themselves: each key says that it belongs there."""

import pytest

from callgate.agents.directories import Sources
from callgate.agents.model import DIRECTORY_TAG, TAG, WELL_KNOWN, Signed
from callgate.agents.verifying import SignedMessage, SignedResponse, content_digest
from callgate.store.memory import MemoryAgents
from support.agent_directories import Page, world
from support.registry import requirement
from support.table import rows

REQUIRED = Sources(signed="required")


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def known(ground, sources, *signers):
    directories = ground.directories(sources)
    return [await directories.key(one.keyid, ground.server.url("a.example")) is not None for one in signers]


def change(ground, **headers):
    page = ground.server.pages["a.example", WELL_KNOWN]
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    ground.server.pages["a.example", WELL_KNOWN] = Page(page.body, dict(page.headers) | changed)


@requirement("WB-092")
async def test_a_signed_directory_is_believed_where_that_is_demanded(ground):
    one, two = ground.signer(), ground.signer(label="sig2")
    ground.server.publish("a.example", one, two)
    ground.server.sign("a.example", one, two)
    assert await known(ground, REQUIRED, one, two) == [True, True]


@requirement("WB-092")
async def test_an_unsigned_directory_is_not_believed_where_that_is_demanded(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    assert await known(ground, REQUIRED, signer) == [False]
    assert await known(ground, Sources(), signer) == [True]
    assert Sources().signed == "optional"


@requirement("WB-092")
async def test_a_key_that_did_not_sign_does_not_count_where_that_is_demanded(ground):
    one, two = ground.signer(), ground.signer()
    ground.server.publish("a.example", one, two)
    ground.server.sign("a.example", one)
    assert await known(ground, REQUIRED, one, two) == [True, False]
    assert await known(ground, Sources(), one, two) == [True, True]
    directories = ground.directories(REQUIRED)
    await directories.key(one.keyid, ground.server.url("a.example"))
    (shown,) = await directories.show(ground.server.url("a.example"))
    assert [(key.thumbprint, key.proven) for key in shown.keys] == [(one.keyid, True)]
    assert shown.left_out == (f"{two.keyid}: it did not sign the directory",)


@requirement("WB-092")
async def test_a_signature_for_another_host_proves_nothing(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer, authority=f"b.example:{ground.server.port}")
    assert await known(ground, REQUIRED, signer) == [False]
    # Even where none is demanded: what is there has to hold.
    assert await known(ground, Sources(), signer) == [False]


@requirement("WB-092")
async def test_a_signature_that_does_not_cover_the_document_is_too_little_unless_an_option_says_so(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer, digest=False)
    assert await known(ground, REQUIRED, signer) == [False]
    assert await known(ground, Sources(signed="required", signed_digest="optional"), signer) == [True]
    assert await known(ground, Sources(), signer) == [True]


@requirement("WB-092")
async def test_a_document_that_was_changed_under_its_signature_is_refused(ground):
    signer, added = ground.signer(), ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer)
    headers = ground.server.pages["a.example", WELL_KNOWN].headers
    ground.server.publish("a.example", signer, added)
    ground.server.pages["a.example", WELL_KNOWN].headers = headers
    for sources in (REQUIRED, Sources()):
        assert await known(ground, sources, signer, added) == [False, False]


@requirement("WB-092")
@rows(("sources", "holds"), [(REQUIRED, False), (Sources(), True)])
async def test_a_signature_whose_time_is_over_counts_as_none(ground, sources, holds):
    """A directory that was signed once and lies there as a file is an unsigned one, where that is enough."""
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer)
    ground.clock.now += 301
    assert await known(ground, sources, signer) == [holds]


@requirement("WB-092")
@rows(
    ("old", "new"),
    [
        ('tag="http-message-signatures-directory"', 'tag="web-bot-auth"'),
        ('"@authority";req', '"@authority"'),
        ('"@authority";req', '"@status"'),
        ('alg="ed25519"', 'alg="hmac-sha256"'),
        (";created=", ";made="),
        (";expires=", ";ends="),
        ("sig1=", "sig9="),
        ("sig1=(", "sig1=(("),
    ],
)
async def test_a_signature_of_another_kind_proves_nothing(ground, old, new):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer)
    given = ground.server.pages["a.example", WELL_KNOWN].headers["Signature-Input"]
    assert old in given
    change(ground, Signature_Input=given.replace(old, new))
    assert await known(ground, REQUIRED, signer) == [False]
    # The form of an earlier draft counts as none; what claims today's form has to hold.
    optional = (not old.startswith("alg") and old != "sig1=") or new == "sig1=(("
    assert await known(ground, Sources(), signer) == [optional]


@requirement("WB-092")
@rows(
    ("names", "tag", "holds"),
    [
        (['"@authority";req', "content-digest"], DIRECTORY_TAG, True),
        (['"@authority";req', "content-digest", '"@status"', '"@method";req', '"@path";req'], DIRECTORY_TAG, True),
        (['"@status"', "content-digest"], DIRECTORY_TAG, False),
        (['"@path";req', "content-digest"], DIRECTORY_TAG, False),
        (['"@authority";req', "content-type"], DIRECTORY_TAG, False),
        (['"@authority";req', "content-digest"], TAG, False),
    ],
)
async def test_a_signature_has_to_be_meant_for_this(ground, names, tag, holds):
    """All of these are good signatures; only what they cover and are for makes the difference."""
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    page = ground.server.pages["a.example", WELL_KNOWN]
    headers = dict(page.headers) | {"Content-Digest": content_digest(page.body)}
    asked = Signed("GET", "https", f"a.example:{ground.server.port}", WELL_KNOWN, None, ())
    plain = tuple((name.lower().encode(), value.encode()) for name, value in headers.items())
    message = SignedMessage(SignedResponse(200, plain, asked, page.body))
    made = signer._signed(message, names, tag, "nonce", 60)
    ground.server.pages["a.example", WELL_KNOWN] = Page(page.body, headers | made)
    assert await known(ground, REQUIRED, signer) == [holds]


async def test_a_directory_that_is_no_longer_signed_takes_no_key_with_it(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer)
    directories = ground.directories(REQUIRED)
    assert await directories.key(signer.keyid, url)
    ground.server.publish("a.example", signer, ground.signer())
    ground.clock.now += 300
    assert await directories.key(signer.keyid, url)


async def test_a_copy_kept_by_laxer_rules_does_not_count_by_stricter_ones(ground):
    shelf = MemoryAgents()
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer, digest=False)
    assert await ground.directories(shelf=shelf).key(signer.keyid, url)
    ground.server.take_down("a.example")
    lax = Sources(signed="required", signed_digest="optional")
    assert await ground.directories(lax, shelf=shelf).key(signer.keyid, url)
    assert await ground.directories(REQUIRED, shelf=shelf).key(signer.keyid, url) is None


@rows("sources", [REQUIRED, Sources()])
async def test_a_directory_without_keys_is_one_whose_keys_were_all_withdrawn(ground, sources):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    ground.server.sign("a.example", signer)
    directories = ground.directories(sources)
    assert await directories.key(signer.keyid, url)
    ground.server.publish("a.example")
    ground.clock.now += 300
    assert await directories.key(signer.keyid, url) is None
