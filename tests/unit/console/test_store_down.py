"""The store does not answer: pages say so, and nothing is decided."""

from callgate.errors import StoreUnavailable
from support.table import rows


async def down(*_args, **_options):
    raise StoreUnavailable("the store's own words, with a secret in them")


@rows("path", ["/", "/approve/x", "/enrol", "/waiting"])
async def test_pages_say_so(console, monkeypatch, path):
    person = await console.sign_in()
    monkeypatch.setattr(console.approvals.shelf, "session", down)
    answer = await console.get(path, person)
    assert answer.status == 503
    assert "store_unavailable" in answer.text
    assert "secret" not in answer.text


async def test_scripts_are_told_so(console, monkeypatch):
    person = await console.sign_in()
    asked = await console.ask()
    body = await console.signed(asked, person)
    monkeypatch.setattr(console.approvals.shelf, "approve_request", down)
    answer = await console.post(f"/approve/{asked.id}/approve", body, person)
    assert (answer.status, answer.reason) == (503, "store_unavailable")
    assert "secret" not in answer.text
    assert (await console.stored(asked)).state == "waiting"


async def test_what_nobody_thought_of_is_told_without_its_words(console, monkeypatch, caplog):
    async def broken(*_args, **_options):
        raise RuntimeError("secret")

    person = await console.sign_in()
    monkeypatch.setattr(console.approvals.shelf, "session", broken)
    answer = await console.get("/", person)
    assert (answer.status, "internal_error" in answer.text) == (500, True)
    assert answer.headers["x-frame-options"] == "DENY"
    assert "secret" not in answer.text + caplog.text
