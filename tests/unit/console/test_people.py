"""The page of people: who is shown what, and what an operator changes with a signature."""

import pytest

from callgate.approval import Approvals
from support.console import live_console
from support.memory import MemoryShelf
from support.table import rows


@pytest.fixture
async def console():
    async with live_console() as running:
        await running.sign_in("anna")
        await running.sign_in("bert", role="approver")
        yield running


@pytest.fixture
def log(console, monkeypatch):
    """What goes on record, apart from the signatures themselves."""
    told = []

    def witness(*said):
        if said[0] != "console.signed":
            told.append(said)

    monkeypatch.setattr(console.approvals, "_witness", witness)
    return told


async def test_operators_see_everything_and_others_names_and_roles(console):
    await console.ask(user="bert")
    page = (await console.get("/people", console.people["anna"])).text
    for text in ("anna", "bert", "Recovery codes", "Calls that wait", 'href="/people/bert"'):
        assert text in page
    page = (await console.get("/people", console.people["bert"])).text
    assert "anna" in page
    assert "operator" in page
    for text in ("Recovery codes", "Calls that wait", "/people/anna", "invite"):
        assert text not in page
    assert (await console.get("/people")).status == 401


async def test_the_page_of_one_person(console):
    page = (await console.get("/people/bert", console.people["anna"])).text
    assert console.people["bert"].credential.id in page
    assert "Remove bert" in page
    own = (await console.get("/people/anna", console.people["anna"])).text
    assert "Remove anna" not in own
    assert "This is you." in own
    for name in ("nobody", "x" * 3000, "%00", "..%2fanna"):
        assert (await console.get(f"/people/{name}", console.people["anna"])).status == 404


async def test_somebody_is_invited_and_their_link_works_once(console, log):
    anna = console.people["anna"]
    body = {"name": "carl", "displayName": " Carl C. ", "role": "viewer"}
    answer = await console.act("/people/invite", body, anna)
    assert (answer.status, answer.json["user"]) == (200, "carl")
    added = await console.approvals.user("carl")
    assert (added.display_name, added.role) == ("Carl C.", "viewer")
    assert log == [
        ("user.add", "anna", {"user": "carl", "role": "viewer"}),
        ("ticket.issue", "anna", {"user": "carl", "purpose": "setup"}),
    ]
    ticket = answer.json["ticket"]
    assert ticket not in (await console.get("/people", anna)).text
    assert ticket not in repr(log)
    looked = (await console.post("/enrol/look", {"ticket": ticket})).json
    assert (looked["user"], looked["displayName"]) == ("carl", "Carl C.")
    carl = await console.sign_in("carl")
    assert (await console.post("/enrol/begin", {"ticket": ticket})).status == 403
    assert (await console.get("/people", carl)).status == 200


@rows(
    ("body", "status"),
    [
        ({"name": "bert", "role": "viewer"}, 409),
        ({"name": "", "role": "viewer"}, 400),
        ({"name": "../x", "role": "viewer"}, 400),
        ({"name": "a b", "role": "viewer"}, 400),
        ({"name": "x" * 65, "role": "viewer"}, 400),
        ({"name": "carl"}, 400),
        ({"name": "carl", "role": "king"}, 400),
        ({"name": "carl", "role": "viewer", "displayName": "x" * 65}, 400),
        ({"name": "carl", "role": "viewer", "more": 1}, 400),
    ],
)
async def test_an_invitation_that_cannot_be(console, body, status):
    answer = await console.post("/people/invite/options", body, console.people["anna"])
    assert answer.status == status
    assert len(await console.approvals.shelf.users()) == 2


async def test_a_lost_link_is_made_anew_for_who_has_no_passkey(console):
    anna = console.people["anna"]
    first = (await console.act("/people/invite", {"name": "carl", "role": "approver"}, anna)).json["ticket"]
    second = (await console.act("/people/carl/link", {}, anna)).json["ticket"]
    assert first != second
    assert (await console.post("/enrol/look", {"ticket": second})).json["user"] == "carl"


async def test_a_role_holds_at_once(console, log):
    anna, bert = console.people["anna"], console.people["bert"]
    assert (await console.get("/people/anna", bert)).status == 403
    answer = await console.act("/people/bert/role", {"role": "operator", "before": "approver"}, anna)
    assert answer.json == {"role": "operator"}
    assert (await console.get("/people/anna", bert)).status == 200
    assert log == [("user.role", "anna", {"user": "bert", "role": "operator", "before": "approver"})]


async def test_a_passkey_of_somebody_is_revoked_and_their_session_ends(console, log):
    anna, bert = console.people["anna"], console.people["bert"]
    answer = await console.act("/people/bert/revoke", {"passkey": bert.credential.id}, anna)
    assert answer.status == 200
    assert (await console.get("/waiting", bert)).status == 401
    assert log == [("credential.revoke", "anna", {"credential": bert.credential.id})]
    own = {"passkey": anna.credential.id}
    assert (await console.post("/people/bert/revoke/options", own, anna)).reason == "page_outdated"


async def test_somebody_is_removed(console, log):
    answer = await console.act("/people/bert/remove", {"passkeys": 1}, console.people["anna"])
    assert answer.status == 200
    assert await console.approvals.shelf.user("bert") is None
    assert (await console.get("/waiting", console.people["bert"])).status == 401
    assert log == [("user.remove", "anna", {"user": "bert", "passkeys": 1})]


async def test_whoever_comes_first_without_a_ticket_runs_nothing():
    """Where first use is allowed, an agent may be the first: it gets to approve, not to change what holds for others."""
    from callgate.approval import ApprovalSettings
    from support.console import PARTY

    approvals = Approvals(MemoryShelf(), PARTY, ApprovalSettings(first_use=True))
    await approvals.begin_enrolment(None, first_use="agent")
    assert (await approvals.user("agent")).role == "approver"
