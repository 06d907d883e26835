"""The attacker's host name resolves to this machine (DNS rebinding): the browser believes it speaks to their site."""

import asyncio

from support.table import rows


async def raw(console, *lines, body=b""):
    """Send a request with these header lines and no others."""
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body)
    async with asyncio.timeout(10):
        got = await reader.read()
    writer.close()
    return int(got.split(b" ", 2)[1]), got


HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example:{port}",
    "localhost:1",
    "localhost",
    "localhost:{port}.evil.example",
    "evil.example/localhost:{port}",
    "localhost:{port}@evil.example",
    "[::1",
    "",
    "\u00e9:{port}",
]


@rows("host", HOSTS)
async def test_another_name_gets_nothing(console, host):
    person = await console.sign_in()
    asked = await console.ask()
    ((name, secret),) = person.cookie.items()
    common = [f"host: {host.format(port=console.port)}", f"cookie: {name}={secret}"]
    status, got = await raw(console, f"GET /approve/{asked.id} HTTP/1.1", *common, "accept: text/html")
    assert status in (400, 403, 421)
    assert b"delete_resource" not in got
    assert person.csrf.encode() not in got
    change = [f"origin: {console.origin}", f"x-callgate-csrf: {person.csrf}", "content-type: application/json"]
    status, got = await raw(
        console, f"POST /approve/{asked.id}/refuse HTTP/1.1", *common, *change, "content-length: 2", body=b"{}"
    )
    assert status in (400, 403)
    assert (await console.stored(asked)).state == "waiting"


async def test_two_hosts_are_not_one(console):
    hosts = [f"host: localhost:{console.port}", "host: evil.example"]
    status, _ = await raw(console, "GET / HTTP/1.1", *hosts)
    assert status == 400


async def test_our_own_name_is_answered(console):
    for host in (f"localhost:{console.port}", f"LOCALHOST:{console.port}"):
        status, got = await raw(console, "GET / HTTP/1.1", f"host: {host}", "accept: text/html")
        assert (status, b"Sign in with passkey" in got) == (200, True)


async def test_an_address_of_this_machine_is_shown_the_way(console):
    """Passkeys are bound to a name: a page under the number could not use them."""
    person = await console.sign_in()
    asked = await console.ask()
    ((name, secret),) = person.cookie.items()
    fields = [f"host: 127.0.0.1:{console.port}", f"cookie: {name}={secret}", "accept: text/html"]
    status, got = await raw(console, f"GET /approve/{asked.id} HTTP/1.1", *fields)
    assert status == 421
    assert f'href="{console.origin}/approve/{asked.id}"'.encode() in got
    assert b"delete_resource" not in got
