"""Signing with the HTTP clients that agents use, verified by a real server on a real socket."""

import hashlib
import json
import stat
import subprocess
import sys

import aiohttp
import httpx2
import pytest
import requests

import callgate
from callgate.agents.keys import PublicKey
from callgate.agents.signing import Signer
from callgate.errors import ConfigError
from callgate.sdk import sign
from callgate.sdk.agent_keys import AgentKey, read_public
from support.registry import requirement
from support.signed_requests import verify
from support.signed_site import signed_site
from support.table import rows

BODY = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"q": "tëa"}}}
DIRECTORY = "https://agent.example"


@pytest.fixture(scope="module")
def key():
    return AgentKey.generate()


@pytest.fixture(scope="module")
def site(key):
    with signed_site(key, verify={"content_digest": "required"}) as origin:
        yield origin


@pytest.fixture
def signer(key):
    return key.signer(DIRECTORY)


@requirement("WB-028")
@rows("how", [{"json": BODY}, {"content": b"\x00\xff" * 5000}, {}, {"data": {"a": "b c"}}])
def test_httpx_requests_are_signed_with_their_bodies(site, signer, how):
    with httpx2.Client(auth=sign.Auth(signer)) as client:
        answer = client.post(f"{site}/echo?a=1&b=%20x", **how)
        assert (answer.status_code, answer.json()["agent"], answer.json()["bound"]) == (200, "alice", True)
        assert answer.json()["sha256"] == hashlib.sha256(answer.request.read()).hexdigest()


async def test_httpx_async_and_paths_as_they_are_spelt(site, signer):
    async with httpx2.AsyncClient(auth=sign.Auth(signer)) as client:
        for path in ("/", "/a%2Fb", "/ä", "/a?", "/a?x=%C3%A4&x=2", "/a//b/../c"):
            answer = await client.get(site + path)
            assert (answer.status_code, answer.json()["agent"]) == (200, "alice"), path


def test_a_body_that_is_made_while_it_is_sent(site, signer):
    with httpx2.Client(auth=sign.Auth(signer)) as client:
        answer = client.post(f"{site}/echo", content=(part for part in [b"one", b"two"]))
        assert answer.json()["sha256"] == hashlib.sha256(b"onetwo").hexdigest()
    with pytest.raises(ConfigError) as refused:
        requests.post(f"{site}/echo", data=(part for part in [b"one"]), auth=sign.Auth(signer), timeout=10)
    assert "whole" in refused.value.advice


async def test_a_body_that_only_comes_later_is_not_sent_unsigned(site, signer):
    async def later():
        yield b"one"

    async with httpx2.AsyncClient(auth=sign.Auth(signer)) as client:
        with pytest.raises(ConfigError):
            await client.post(f"{site}/echo", content=later())


@rows("how", [{"json": BODY}, {"data": b"\x00\xff"}, {"data": "text"}, {}])
def test_requests(site, signer, how):
    answer = requests.post(f"{site}/echo?a=1", auth=sign.Auth(signer), timeout=10, **how)
    assert (answer.status_code, answer.json()["agent"], answer.json()["bound"]) == (200, "alice", True)


@rows("how", [{"json": BODY}, {"data": b"\x00\xff"}, {"data": {"a": "b"}}, {}])
async def test_aiohttp(site, signer, how):
    async with aiohttp.ClientSession(middlewares=[sign.aiohttp_middleware(signer)]) as session:
        async with session.post(f"{site}/echo?a=1", **how) as answer:
            assert ((await answer.json())["agent"], answer.status) == ("alice", 200)
        # A redirected request is another one, with a signature of its own.
        async with session.post(f"{site}/away", **how) as answer:
            assert (answer.url.path, answer.status) == ("/echo", 200)


async def test_what_is_compressed_on_its_way_is_not_sent_unsigned(site, signer):
    async with aiohttp.ClientSession(middlewares=[sign.aiohttp_middleware(signer)]) as session:
        with pytest.raises(ConfigError):
            await session.post(f"{site}/echo", data=b"x" * 100, compress="deflate")


async def test_a_request_that_is_sent_again_is_signed_anew(site, signer):
    auth = sign.Auth(signer)
    async with httpx2.AsyncClient(auth=auth, follow_redirects=False) as client:
        answer = await client.post(f"{site}/away", json=BODY)
        again = await client.send(answer.next_request)
        assert (again.status_code, again.json()["agent"]) == (200, "alice")
        # Another signer adds a label beside ours, and ours is made anew once more.
        request = client.build_request("POST", f"{site}/echo", json=BODY)
        sign.Auth(AgentKey.generate().signer("https://other.example", label="other"))(request)
        for _ in range(2):
            answer = await client.send(request)
            assert answer.status_code == 200
        assert request.headers["signature-input"].count("other=") == 1
        assert request.headers["signature-input"].count("sig1=") == 1


def test_not_importing_clients_that_are_not_used():
    program = (
        "import sys\nfrom callgate import sign\n"
        "print([name for name in ('httpx', 'httpx2', 'requests', 'aiohttp', 'mcp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
    assert callgate.sign is sign


@requirement("WB-054")
async def test_any_other_client_gets_the_headers(key):
    now = 1_900_000_000
    signer = Signer(key.private, DIRECTORY, clock=lambda: now)
    made = sign.signed_headers(signer, "POST", "https://gate.example/mcp", b"x", {"X-Other": "1"})
    assert list(made) == ["Content-Digest", "Signature-Agent", "Signature-Input", "Signature"]
    pairs = tuple((name.lower().encode(), value.encode()) for name, value in made.items())
    request = sign.request_of("POST", "https://gate.example/mcp", b"x", pairs)
    verified = await verify(request, keys=[PublicKey.read(key.jwk, DIRECTORY)], now=now)
    assert verified.digest_verified
    with pytest.raises(ConfigError):
        sign.signed_headers(signer, "GET", "gate.example/mcp")


# -- keys in files -----------------------------------------------------------------------------------------------


@rows("kind", ["ed25519", "p256"])
@rows("form", ["pem", "jwk"])
def test_a_key_is_written_for_its_owner_alone_and_read_again(tmp_path, kind, form):
    made = AgentKey.generate(kind)
    made.write(path := tmp_path / "key", form)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert AgentKey.read(path).thumbprint == made.thumbprint
    assert read_public(path) == [dict(made.jwk)]
    assert "d" not in read_public(path)[0]
    with pytest.raises(ConfigError, match="there already"):
        made.write(path, form)
    assert made.thumbprint in repr(made)


def test_a_key_is_not_written_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        AgentKey.generate().write(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@rows(
    "text",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"kty":"OKP","crv":"Ed25519","x":"AAAA","d":"AAAA"}',
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"x" * 300_000,
    ],
)
def test_what_is_no_private_key_is_told_without_printing_it(tmp_path, text):
    (path := tmp_path / "key").write_bytes(text)
    with pytest.raises(ConfigError) as refused:
        AgentKey.read(path)
    assert "AAAA" not in str(refused.value)
    assert refused.value.advice


def test_halves_that_do_not_belong_together_are_no_key(tmp_path):
    one, other = AgentKey.generate(), AgentKey.generate()
    one.write(tmp_path / "one", "jwk")
    mixed = json.loads((tmp_path / "one").read_text()) | {"x": other.jwk["x"]}
    (tmp_path / "mixed").write_text(json.dumps(mixed))
    with pytest.raises(ConfigError):
        AgentKey.read(tmp_path / "mixed")
    with pytest.raises(ConfigError):
        AgentKey.read(tmp_path)
    with pytest.raises(ConfigError):
        AgentKey.read(tmp_path / "missing")
