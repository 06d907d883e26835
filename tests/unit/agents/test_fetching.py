"""Fetching: what is reached, what is taken of it, and everything that is not."""

import asyncio
import ipaddress
import socket
import ssl

import pytest

from callgate.agents.fetching import Caps, Fetcher, FetchFailed, Reach, place, public
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN
from support.agent_directories import LOOPBACK, Page, world
from support.registry import requirement
from support.table import rows


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def failing(fetcher, url):
    with pytest.raises(FetchFailed) as caught:
        await fetcher.fetch(url)
    return caught.value.reason


@requirement("WB-011")
async def test_a_document_is_fetched_over_https(ground):
    ground.server.put("a.example", {"keys": []}, Cache_Control="public, max-age=90")
    answer = await ground.fetcher().fetch(ground.server.directory("a.example"))
    assert answer.body == b'{"keys": []}'
    assert answer.max_age == 90
    (asked,) = ground.server.asked
    assert asked.path == WELL_KNOWN
    assert DIRECTORY_TYPE in asked.headers["accept"]
    assert "cookie" not in asked.headers
    assert asked.headers["accept-encoding"] == "identity"


@requirement("WB-011")
@rows(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.0.8",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "fe80::1%eth0",
        "localhost",
    ],
)
async def test_an_address_that_is_not_public_is_not_reached(ground, address):
    ground.dns["a.example"] = [address]
    assert await failing(ground.fetcher(Reach()), ground.server.directory("a.example")) == "not_public"
    assert ground.server.connections == 0


@rows("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"])
def test_addresses_of_the_open_internet_are_public(address):
    assert public(ipaddress.ip_address(address))


@requirement("WB-011")
async def test_one_inner_address_among_public_ones_is_enough_to_refuse(ground):
    ground.dns["a.example"] = ["93.184.216.34", "127.0.0.1"]
    assert await failing(ground.fetcher(Reach()), ground.server.directory("a.example")) == "not_public"
    assert ground.server.connections == 0


@requirement("WB-011")
@rows("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]"])
async def test_an_address_written_out_is_checked_too(ground, host):
    assert await failing(ground.fetcher(Reach()), f"https://{host}:{ground.server.port}/") == "not_public"
    assert ground.looked_up == []
    assert ground.server.connections == 0


@rows("host", ["127.1", "2130706433", "0x7f.0.0.1", "localhost", "localhost."])
async def test_other_spellings_of_this_machine_come_out_as_its_address(host):
    with pytest.raises(FetchFailed) as caught:
        await Fetcher().fetch(f"https://{host}:1/")
    assert caught.value.reason in {"not_public", "unreachable"}


@requirement("WB-011")
@rows(
    ("url", "reason"),
    [
        ("http://a.example/", "not_https"),
        ("ftp://a.example/", "not_https"),
        ("file:///etc/passwd", "not_https"),
        ("//a.example/", "not_https"),
        ("https://user@a.example/", "url_invalid"),
        ("https://a.example/#x", "url_invalid"),
        ("https://a.example:0/", "url_invalid"),
        ("https://a.example:99999/", "url_invalid"),
        ("https:///x", "url_invalid"),
        ("https://a_b/\\x", "url_invalid"),
        ("https://a.example/\r\nHost: b", "url_invalid"),
        ("https://a.example/ x", "url_invalid"),
        ("https://ä.example/", "url_invalid"),
        ("https://[fe80::1%25eth0]/", "url_invalid"),
        ("https://[::1/", "url_invalid"),
        ("https://a..example/", "url_invalid"),
        ("https://" + "a" * 64 + ".example/", "url_invalid"),
        ("https://a.example/" + "a" * 2048, "url_invalid"),
    ],
)
async def test_a_url_that_is_not_plain_https_is_not_fetched(ground, url, reason):
    assert await failing(ground.fetcher(), url) == reason
    assert ground.looked_up == []


def test_a_url_has_one_spelling():
    assert place("https://A.Example:443").url == "https://a.example/"
    assert place("HTTPS://a.example./x?y=1").url == "https://a.example/x?y=1"
    assert place("https://[2606:2800:220:1:0::1]:8443/").authority == "[2606:2800:220:1::1]:8443"


async def test_plain_http_and_inner_networks_are_reached_only_where_an_option_says_so():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        assert await failing(Fetcher(Reach(plain_http=True)), url) == "not_public"
        assert await failing(Fetcher(LOOPBACK), url) == "not_https"
        reach = Reach(plain_http=True, networks=("127.0.0.0/8",))
        assert await Fetcher(reach).body(url) == b"{}"
    finally:
        server.close()


async def test_a_certificate_that_nobody_vouches_for_is_not_believed(ground):
    ground.server.put("a.example", {"keys": []})
    stranger = Fetcher(LOOPBACK, resolve=ground.resolve)
    assert await failing(stranger, ground.server.directory("a.example")) == "unreachable"
    assert ground.server.asked == []


async def test_a_certificate_of_another_host_is_not_believed(ground):
    assert await failing(ground.fetcher(), ground.server.directory("other.example")) == "unreachable"
    assert ground.server.asked == []


async def test_proxies_of_the_environment_are_not_used(ground, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    ground.server.put("a.example", {"keys": []})
    assert (await ground.fetcher().fetch(ground.server.directory("a.example"))).body


@requirement("WB-011")
@rows(
    ("page", "reason"),
    [
        (Page(status="302 Found", headers={"Location": "https://b.example/"}), "redirected"),
        (Page(status="404 Not Found"), "bad_status"),
        (Page(status="206 Partial Content", headers={"Content-Type": DIRECTORY_TYPE}), "bad_status"),
        (Page(b"{}", {"Content-Type": "text/html"}), "wrong_type"),
        (Page(b"{}", {}), "wrong_type"),
        (Page(b"{}", {"Content-Type": DIRECTORY_TYPE, "Content-Encoding": "gzip"}), "encoded"),
        (Page(b"x" * 70_000, {"Content-Type": DIRECTORY_TYPE}), "too_large"),
        (Page(b"{}", {"Content-Type": DIRECTORY_TYPE, "X": "x" * 20_000}), "unreachable"),
        (Page(b"{}", {"Content-Type": DIRECTORY_TYPE, **{f"X-{n}": "x" for n in range(100)}}), "unreachable"),
        (Page(b"{", {"Content-Type": DIRECTORY_TYPE, "Content-Length": "9"}), "unreachable"),
        (Page(status="garbage"), "unreachable"),
    ],
)
async def test_an_answer_that_is_not_a_plain_document_is_refused(ground, page, reason):
    ground.server.pages["a.example", WELL_KNOWN] = page
    fetcher = ground.fetcher(caps=Caps(bytes=65_536))
    assert await failing(fetcher, ground.server.directory("a.example")) == reason


async def test_a_document_without_a_stated_length_is_cut_off_too(ground):
    async def write(writer):
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {DIRECTORY_TYPE}\r\nConnection: close\r\n\r\n".encode())
        for _ in range(64):
            writer.write(b"x" * 65_536)
            await writer.drain()

    ground.server.pages["a.example", WELL_KNOWN] = Page(write=write)
    assert await failing(ground.fetcher(), ground.server.directory("a.example")) == "too_large"


@rows(
    ("value", "age"),
    [
        ("max-age=60", 60),
        ("public,max-age=60", 60),
        ("s-maxage=9, private", None),
        ("no-store", 0),
        ("max-age=60, no-cache", 0),
        ("max-age=nine", None),
    ],
)
async def test_what_a_publisher_says_of_its_age_is_read(ground, value, age):
    ground.server.put("a.example", {"keys": []}, Cache_Control=value)
    assert (await ground.fetcher().fetch(ground.server.directory("a.example"))).max_age == age


async def test_a_host_that_cannot_be_looked_up_is_not_reached(ground):
    async def nothing(_host, _port):
        raise socket.gaierror

    fetcher = Fetcher(LOOPBACK, resolve=nothing)
    assert await failing(fetcher, "https://a.example/") == "unreachable"
    ground.dns["a.example"] = []
    assert await failing(ground.fetcher(), "https://a.example/") == "unreachable"
    ground.dns["a.example"] = ["127.0.0.1"] * 17
    assert await failing(ground.fetcher(), "https://a.example/") == "unreachable"


async def test_certificates_are_checked_by_default():
    context = Fetcher()._context()
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
