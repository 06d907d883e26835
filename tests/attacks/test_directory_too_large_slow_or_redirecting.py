"""Directories made to exhaust who fetches them, or to send them inside: 100 MB, 10,000 keys, redirects, a trickle."""

import asyncio
import itertools
import json

import pytest

from callgate.agents.directories import Sources
from callgate.agents.fetching import Caps
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from callgate.store.memory import MemoryAgents
from support.agent_directories import Page, listening, world
from support.loop_clock import advance
from support.registry import requirement
from support.signed_requests import adding, request
from support.table import rows

HUNDRED_MB = 100 * 1024 * 1024
PATIENT = Sources(caps=Caps(seconds=600))
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {DIRECTORY_TYPE}\r\n"


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def attack(ground, page):
    """A request that names such a directory: refused, and how the fetch ended."""
    signer = ground.signer(ground.server.url("eve.example"))
    if isinstance(page, Page):
        ground.server.pages["eve.example", WELL_KNOWN] = page
    else:
        page(signer)
    directories = ground.directories(PATIENT)
    plain = request()
    verifier = Verifier(VerifySettings(), directories.key, MemoryAgents(), ground.clock)
    with pytest.raises(Refused) as caught:
        await verifier.verify(adding(plain, signer.sign(plain)))
    assert (caught.value.reason, caught.value.status) == (Reason.UNKNOWN_KEYID, 401)
    failure = directories.published.failure(ground.server.directory("eve.example"))
    # The next request does not start it again.
    before = ground.server.connections
    assert await directories.key(signer.keyid, ground.server.url("eve.example")) is None
    assert ground.server.connections == before
    # Others are served all the same.
    honest = ground.signer(ground.server.url("a.example"))
    ground.server.publish("a.example", honest)
    assert await directories.key(honest.keyid, ground.server.url("a.example")) is not None
    return failure.reason


def pouring(head, framed):
    """Writes 100 MB or as much of it as is taken; `sent` counts."""
    sent = [0]

    async def write(writer):
        writer.write(head.encode())
        block = b" " * 65_536
        for _ in range(HUNDRED_MB // len(block)):
            writer.write(b"%x\r\n%s\r\n" % (len(block), block) if framed else block)
            await writer.drain()
            # The other end's farewell is read between two blocks.
            await asyncio.sleep(0)
            if writer.is_closing():
                return
            sent[0] += len(block)

    return sent, Page(write=write)


@requirement("WB-011")
@rows(
    ("head", "framed"),
    [
        (f"{HEAD}Content-Length: {HUNDRED_MB}\r\n\r\n", False),
        (f"{HEAD}Connection: close\r\n\r\n", False),
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\n", True),
    ],
    ids=["stated", "unstated", "chunked"],
)
async def test_a_hundred_megabytes_are_not_taken(ground, head, framed):
    sent, page = pouring(head, framed)
    assert await attack(ground, page) == "too_large"
    assert sent[0] < HUNDRED_MB / 4


@requirement("WB-011")
async def test_ten_thousand_keys_are_not_read(ground):
    def publish(signer):
        filler = [{"kty": "OKP", "crv": "Ed25519", "x": f"{number:043}"} for number in range(10_000)]
        ground.server.put("eve.example", {"keys": [dict(signer.jwk), *filler]})

    assert await attack(ground, publish) == "too_large"


@requirement("WB-011")
async def test_ten_thousand_keys_in_few_bytes_are_not_read_either(ground):
    def publish(signer):
        ground.server.put("eve.example", json.dumps({"keys": [dict(signer.jwk), *[0] * 10_000]}).encode())

    assert await attack(ground, publish) == "document_invalid"


@requirement("WB-011")
@rows("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_to_an_inner_address_is_not_followed(ground, status):
    async with listening() as inner:
        to = f"https://localhost:{inner.port}{WELL_KNOWN}"
        page = Page(b"", {"Location": to, "Content-Type": DIRECTORY_TYPE}, status)
        assert await attack(ground, page) == "redirected"
        assert inner.connections == 0


@requirement("WB-011")
async def test_a_refresh_header_is_no_way_around_either(ground):
    async with listening() as inner:
        to = f"0; url=https://localhost:{inner.port}/"
        page = Page(b"", {"Refresh": to, "Content-Location": to, "Content-Type": DIRECTORY_TYPE})
        assert await attack(ground, page) == "document_invalid"
        assert inner.connections == 0


@requirement("WB-011")
@rows(
    "start",
    [
        f"{HEAD}Content-Length: 100000\r\n\r\n",
        f"{HEAD}\r\n",
        HEAD,
        "HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=["in the body", "in an endless body", "in a header", "before the answer"],
)
async def test_an_endless_trickle_ends(ground, start):
    block = b"HTTP/1.1 100 Continue\r\n\r\n" if "Continue" in start else b" " if "\r\n\r\n" in start else b"x"

    async def write(writer):
        writer.write(start.encode() + (b"X: " if start == HEAD else b""))
        for number in itertools.count():
            writer.write(block)
            await writer.drain()
            await asyncio.sleep(0)
            if number == 20:
                advance(PATIENT.caps.seconds)

    assert await attack(ground, Page(write=write)) == "too_slow"


@requirement("WB-011")
async def test_a_server_that_never_speaks_is_left(ground):
    stay = asyncio.Event()

    async def silent(_writer):
        advance(PATIENT.caps.seconds)
        await stay.wait()

    assert await attack(ground, Page(write=silent)) == "too_slow"
    stay.set()


@requirement("WB-011")
async def test_a_server_that_never_finishes_the_handshake_is_left(ground):
    stay = asyncio.Event()

    async def mute(_reader, writer):
        advance(PATIENT.caps.seconds)
        await stay.wait()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    try:
        url = f"https://eve.example:{server.sockets[0].getsockname()[1]}"
        directories = ground.directories(PATIENT)
        assert await directories.key("x" * 43, url) is None
        told = await directories.why("x" * 43, url)
        assert told.steps[-1].text.startswith("too_slow")
    finally:
        stay.set()
        server.close()


@requirement("WB-011")
async def test_a_name_that_is_never_resolved_is_left(ground):
    async def never(_host, _port):
        advance(PATIENT.caps.seconds)
        await asyncio.Event().wait()

    directories = ground.directories(PATIENT)
    directories.published._fetcher._resolve = never
    assert await directories.key("x" * 43, "https://eve.example") is None
    assert directories.published.failure(f"https://eve.example{WELL_KNOWN}").reason == "too_slow"


@requirement("WB-011")
async def test_compressed_bombs_are_not_unpacked(ground):
    page = Page(b"\x1f\x8b" + b"\0" * 64, {"Content-Type": DIRECTORY_TYPE, "Content-Encoding": "gzip"})
    assert await attack(ground, page) == "encoded"


@requirement("WB-011")
@rows("document", [b"[" * 200_000, b'{"keys":' * 30_000, b"9" * 200_000])
async def test_documents_made_to_break_a_parser_are_refused(ground, document):
    page = Page(document, {"Content-Type": DIRECTORY_TYPE})
    assert await attack(ground, page) == "document_invalid"
