"""One app with two sites: take what was signed for one of them to the other, by a Host that only the app understands."""

import http.client
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Route, Router

from callgate.sdk import sign
from callgate.sdk.agent_keys import AgentKey
from callgate.sdk.web_bot_auth import WebBotAuthMiddleware
from support.registry import requirement
from support.signed_site import authenticator, serving
from support.table import rows

ORIGINS = ["https://shop.example", "https://office.example"]


def site(name):
    async def answer(_request):
        return PlainTextResponse(name)

    return Router(routes=[Route("/", answer, methods=["POST"])])


@pytest.fixture(scope="module")
def key():
    return AgentKey.generate()


@pytest.fixture(scope="module")
def app(key):
    """Starlette tells the sites apart by Host, whatever port that names."""
    both = Starlette(routes=[Host("office.example", site("office")), Host("shop.example", site("shop"))])
    with serving(WebBotAuthMiddleware(both, authenticator(key), origins=ORIGINS)) as origin:
        yield origin


def sent(app, key, signed_for, *hosts):
    connection = http.client.HTTPConnection(urlsplit(app).netloc, timeout=20)
    try:
        connection.putrequest("POST", "/", skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        made = sign.signed_headers(key.signer(), "POST", f"{signed_for}/", b"x")
        for name, value in {**made, "Content-Length": "1"}.items():
            connection.putheader(name, value)
        connection.endheaders(b"x")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@requirement("WB-085")
@rows(
    "hosts",
    [
        ["office.example:80"],
        ["office.example:8443"],
        ["office.example:"],
        ["office.example."],
        ["office.example", "shop.example"],
    ],
    ids=" ".join,
)
def test_the_shops_signature_at_the_office(app, key, hosts):
    status, answer = sent(app, key, "https://shop.example", *hosts)
    assert (status, "host_not_allowed" in answer) in {(403, True), (400, False)}


@requirement("WB-085")
def test_nor_in_its_own_name(app, key):
    for host in ("office.example", "Office.Example", "office.example:443"):
        status, answer = sent(app, key, "https://shop.example", host)
        assert (status, "signature_invalid" in answer) == (401, True)


@requirement("WB-085")
def test_each_site_with_its_own(app, key):
    assert sent(app, key, "https://shop.example", "shop.example") == (200, "shop")
    assert sent(app, key, "https://office.example", "office.example") == (200, "office")
    assert sent(app, key, "https://office.example", "office.example:443") == (200, "office")
