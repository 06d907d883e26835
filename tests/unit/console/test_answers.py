"""What every answer of the console has in common."""

import pytest

from callgate.console import console_app
from callgate.errors import ConfigError
from support.console import PARTY, Approvals, MemoryShelf
from support.table import rows

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def assert_headers(answer):
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    allowed = {rule for rule in answer.headers["permissions-policy"].split(", ") if not rule.endswith("=()")}
    assert allowed == {
        "clipboard-write=(self)",
        "publickey-credentials-create=(self)",
        "publickey-credentials-get=(self)",
    }


@rows("path", ["/", "/sign-in", "/enrol", "/recover", "/approve/x", "/nowhere", "/waiting"])
async def test_every_answer_is_guarded_and_stored_nowhere(console, path):
    person = await console.sign_in()
    for visitor in (None, person):
        answer = await console.get(path, visitor)
        assert_headers(answer)
        assert answer.headers["cache-control"] == "no-store"


async def test_refusals_of_scripts_are_guarded_too(console):
    for path in ("/sign-in", "/approve/x/approve", "/nowhere"):
        answer = await console.post(path, b"{")
        assert answer.status >= 400
        assert_headers(answer)
        assert set(answer.json["error"]) == {"reason", "message", "advice"}
        assert all(answer.json["error"].values())


async def test_static_files_are_cached_by_their_content(console):
    page = await console.get("/sign-in")
    path = page.text.split('rel="stylesheet" href="')[1].split('"')[0]
    answer = await console.get(path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert_headers(answer)
    digest = path.split("/")[2]
    stale = await console.get(path.replace(digest, "0" * len(digest)))
    assert (stale.status, stale.headers["cache-control"]) == (404, "no-store")


@rows("name", ["nothing.js", "..%2fapp.py", "%2e%2e/app.py", "console.css%00.js", "../app.py"])
async def test_only_static_files_are_static_files(console, name):
    page = await console.get("/sign-in")
    folder = page.text.split('rel="stylesheet" href="')[1].rsplit("/", 1)[0]
    assert (await console.get(f"{folder}/{name}")).status == 404


async def test_an_unknown_page_is_a_page(console):
    answer = await console.get("/nowhere")
    assert (answer.status, "page_unknown" in answer.text) == (404, True)
    assert answer.headers["content-type"].startswith("text/html")
    assert (await console.get("/nowhere", accept="application/json")).reason == "page_unknown"


async def test_another_method_is_refused(console):
    answer = await console.post("/enrol", {})
    assert (answer.status, answer.reason) == (405, "method_not_allowed")


async def test_the_session_cookie_is_kept_from_scripts_and_other_sites(console):
    person = await console.sign_in()
    issued = (await console.post("/sign-in/options", {})).json
    assert issued["requestOptions"]["allowCredentials"] == []
    body = {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"])}
    answer = await console.post("/sign-in", body)
    assert (answer.status, answer.json) == (200, {"user": "anna"})
    name, *flags = [part.strip().lower() for part in answer.headers["set-cookie"].split(";")]
    assert name.startswith(f"callgate_session_{console.port}=")
    assert {"httponly", "samesite=lax", "path=/"} <= set(flags)
    assert not [flag for flag in flags if flag.startswith(("domain", "secure"))]
    assert name.split("=")[1] not in (await console.get("/", person)).text.lower()


def test_over_https_the_cookie_is_bound_to_the_host():
    approvals = Approvals(MemoryShelf(), PARTY)
    desk = console_app(approvals, origin="https://gate.example", secure=True)._context
    assert desk.address.cookie == "__Host-callgate_session"
    assert desk.address.is_ours("gate.example")
    assert desk.address.is_ours("Gate.Example:443")
    assert not desk.address.is_ours("gate.example:8443")


@rows("origin", ["localhost:1", "http://localhost:1/", "http://localhost:1/x", "ftp://x", "http://"])
def test_an_origin_is_scheme_host_and_port(origin):
    with pytest.raises(ConfigError):
        console_app(Approvals(MemoryShelf(), PARTY), origin=origin, secure=False)


async def test_a_call_of_an_agent_that_tells_no_name_can_be_decided(console):
    person = await console.sign_in()
    asked = await console.ask(agent={"transport": "http", "peer": "127.0.0.1"})
    answer = await console.get(f"/approve/{asked.id}", person)
    assert answer.status == 200
    assert "An agent" in answer.text
    assert "calls itself" not in answer.text
