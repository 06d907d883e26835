import pytest
from msgspec.structs import replace

from callgate.approval.overview import asker, beginning, kind, passkeys, people, phase, request_row, requests
from support.enrolling import GATED, enrol, service
from support.memory import MemoryShelf
from support.table import rows


@pytest.fixture
async def alice():
    """Somebody with a passkey and a call that waits."""
    approvals = service(MemoryShelf(), clock=lambda: 1_000.0)
    enrolled, _ = await enrol(approvals, await approvals.ticket("alice", by="operator"), name="key")
    agent = {"client": "editor 1.0", "transport": "stdio"}
    request = await approvals.ask(GATED, {"name": "x"}, b'{"name":"x"}', "alice", caller="c", agent=agent)
    return approvals, enrolled.credential, request


@rows(
    ("transports", "words"),
    [
        (("internal",), "This phone or computer"),
        (("hybrid", "internal"), "Phone or computer, also from others"),
        (("hybrid",), "Phone"),
        (("usb", "nfc"), "Security key"),
        ((), "Unknown kind"),
    ],
)
async def test_what_sort_of_thing_holds_a_passkey(alice, transports, words):
    assert kind(replace(alice[1], transports=transports)) == words


async def test_where_a_request_stands(alice):
    _, _, request = alice
    assert phase(request, request.expires_at - 1) == "waiting"
    assert phase(request, request.expires_at) == "expired"
    approved = replace(request, state="approved")
    assert phase(approved, request.expires_at - 1) == "approved"
    assert phase(approved, request.expires_at) == "expired"
    for state in ("refused", "used"):
        assert phase(replace(request, state=state), request.expires_at + 1) == state


async def test_what_to_call_whoever_asked(alice):
    _, _, request = alice
    assert asker(request) == "editor 1.0"
    assert asker(replace(request, agent={"client": "editor", "agent": "crawler.example"})) == "crawler.example"
    assert asker(replace(request, agent={"client": ""})) == "An agent"


async def test_rows_of_everybody(alice):
    approvals, credential, request = alice
    await approvals.add_user("bob", by="operator")
    rows = await people(approvals.shelf, approvals.now())
    assert [(row.name, row.passkeys, row.recovery_codes, row.waiting) for row in rows] == [
        ("alice", 1, 8, 1),
        ("bob", 0, 0, 0),
    ]
    assert [row.id for row in await passkeys(approvals.shelf)] == [credential.id]
    assert await passkeys(approvals.shelf, "bob") == []
    assert await requests(approvals.shelf, approvals.now()) == [request_row(request, approvals.now())]


async def test_what_ran_out_neither_waits_nor_counts(alice):
    approvals, _, request = alice
    assert (await people(approvals.shelf, request.expires_at))[0].waiting == 0
    assert await requests(approvals.shelf, request.expires_at) == []
    assert [row.state for row in await requests(approvals.shelf, request.expires_at, everything=True)] == ["expired"]


async def test_a_revoked_passkey_is_listed_only_if_asked_for(alice):
    approvals, credential, _ = alice
    await approvals.revoke(credential.id, by="operator")
    assert await passkeys(approvals.shelf) == []
    assert [row.revoked_at for row in await passkeys(approvals.shelf, revoked=True)] == [1_000_000]


@rows(
    ("canonical", "shown"),
    [
        (b'{"a":1}', '{"a":1}'),
        ('{"a":"\u202eb\\n"}'.encode(), '{"a":"\\u202eb\\n"}'),
        (b'{"a":"' + b"x" * 200 + b'"}', '{"a":"' + "x" * 114 + "…"),
        (('{"a":"' + "\u00fc" * 5000 + '"}').encode(), '{"a":"' + "\u00fc" * 114 + "…"),
    ],
)
def test_the_beginning_of_the_arguments_is_one_line(canonical, shown):
    assert beginning(canonical) == shown
