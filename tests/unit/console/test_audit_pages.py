"""The audit pages over a real log: search, pages that neither miss nor repeat a call, proofs, receipts, refusals."""

import base64
import html
import json
import re

import pytest
import pytest_asyncio

from callgate.audit import Arguments, Repeated, receipt
from callgate.audit.proofs import climb
from callgate.audit.reading import Search, search
from callgate.audit.storage import Filter
from callgate.console.pages import audit
from callgate.errors import Refused
from support.audited import SESSION, audited_console, now_of, story, write
from support.auditing import START, decision, outcome
from support.console import ARGUMENTS
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory):
    async with audited_console(tmp_path_factory.mktemp("audit")) as (console, rooms):
        write(rooms.log, story(now_of(console)))
        rooms.log.catch_up()
        await console.sign_in("anna")
        yield console, rooms


@pytest_asyncio.fixture(loop_scope="module")
async def other(tmp_path):
    """A log of a test's own."""
    async with audited_console(tmp_path) as (console, rooms):
        await console.sign_in("anna")
        yield console, rooms


def words(text):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def ask(place, path, status=200):
    console, _ = place
    answer = await console.get(path, console.people["anna"])
    assert answer.status == status, words(answer.text)
    return answer.text


def calls(text):
    """The numbers of the calls that a page lists."""
    return [
        int(one) for one in re.findall(r'<th scope="row" data-label="Call"><a href="/audit/01testcall0*(\d+)"', text)
    ]


async def test_calls_are_listed_the_newest_first(place):
    text = await ask(place, "/audit")
    assert calls(text) == list(range(16, 0, -1))
    assert "lost" in words(text)
    assert 'rel="next"' not in text
    assert 'rel="prev"' not in text


async def test_calls_of_callers_whom_nobody_knows_are_counted_together(other):
    """The first of them on its own, the rest in one record that says how many they were."""
    refused = {"verdict": "refuse", "reason": "unknown_keyid", "arguments": Arguments("hashed"), "args_hash": None}
    caller = {"peer": "192.0.2.1", "proof": "signature", "key (claimed, not verified)": "<b>me"}
    repeated = Repeated(1200, START, START + 60_000, ("read", "<i>x"))
    write(
        other[1].log,
        [
            decision(1, **refused, caller=caller, tool=""),
            decision(2, **refused, caller=caller, repeated=repeated),
        ],
    )
    listed = await ask(other, "/audit")
    assert "1,200 calls" in words(listed)
    assert "a tool that was not read on files" in words(listed)
    one, many = [await ask(other, f"/audit/{decision(number).call}") for number in (1, 2)]
    for page in (one, many):
        assert "Who called was not verified." in words(page)
        assert "Key (claimed, not verified) <b>me" in words(page)
        assert "They were not kept." in words(page)
    assert "counted together" not in words(one)
    assert "1,200 more calls of read , <i>x by the same caller, refused between" in words(many)


@rows(
    ("query", "found"),
    [
        ("q=SEND_", [14, 13]),
        ("q=mail", [16, 15, 14, 13]),
        ("q=not_approved", [15]),
        ("q=%25", []),
        ("q=_____________________", []),
        ("server=mail", [16, 15, 14, 13]),
        ("tool=send_mail", [14, 13]),
        ("verdict=refuse", [15, 14, 13]),
        ("verdict=refuse&reason=rule_blocked", [14, 13]),
        ("verdict=approved", []),
        ("agent=agent-7", [14, 13]),
        ("agent=Fieldwork", [16, 14, 13]),
        ("agent=rule_blocked", []),
        (f"session={SESSION}", [14, 13]),
        (f"session={SESSION[:12]}", [14, 13]),
        ("session=conn-1&server=files", list(range(12, 0, -1))),
        ("session=conn", []),
        ("person=anna", []),
        ("since=10m", [16, 15, 14, 13]),
        ("since=65m&until=10m", [12, 11]),
        ("since=2001-01-01&until=2001-01-02T10:00", []),
        (f"call={decision(5).call}", [5]),
        ("server=mail%27%20OR%201=1", []),
    ],
)
async def test_a_search_finds_what_it_says(place, query, found):
    text = await ask(place, f"/audit?{query}")
    assert calls(text) == found
    if not found:
        assert "No call on record matches this." in words(text)


async def test_the_form_keeps_what_was_looked_for(place):
    text = await ask(place, "/audit?q=%22%3E%3Cb%3E&server=mail&verdict=refuse")
    assert 'value="&#34;&gt;&lt;b&gt;"' in text
    assert '<option value="refuse" selected>' in text
    assert '<details class="fold" open>' in text


@rows(
    "query",
    [
        "before=x",
        "before=0",
        "before=-1",
        "after=1e9",
        f"before={'9' * 19}",
        "after=",
        "since=yesterday",
        "since=2026-13-40",
        "until=99999999999h",
        "verdict=maybe",
        f"q={'x' * 257}",
        "tool=%00",
    ],
)
async def test_an_address_that_nobody_can_mean_is_refused_with_advice(place, query):
    text = await ask(place, f"/audit?{query}", 400)
    assert 'id="odd"' in text
    assert calls(text) == []


@rows("query", [{"q": "\ud800"}, {"until": "9" * 40}])
async def test_what_is_no_text_and_no_time_is_refused(query):
    with pytest.raises(Refused) as refused:
        audit.read_query(query, START)
    assert refused.value.advice


async def test_times_are_bounded():
    asked = audit.read_query({"since": "999999w", "until": "1902-01-01"}, START)
    assert (asked.search.filter.since, asked.search.filter.until) == (0, 0)
    assert audit.read_query({"since": "0001-01-01T00:00+23:59"}, START).search.filter.since == 0


@rows("before", ["1", "999999999999999999"])
async def test_a_place_before_or_after_everything_is_no_trouble(place, before):
    assert calls(await ask(place, f"/audit?before={before}")) == (list(range(16, 0, -1)) if len(before) > 1 else [])
    assert calls(await ask(place, f"/audit?after={before}")) == list(range(16, 0, -1))


async def follow(place, path, rel):
    """Every page from this one on, as a reader goes through them; more calls come in the meantime."""
    _, rooms = place
    seen, extra = [], 5000
    while path:
        text = await ask(place, path)
        seen += calls(text) if rel == "next" else calls(text)[::-1]
        write(rooms.log, [decision(extra), outcome(extra)])
        extra += 1
        found = re.search(rf'rel="{rel}" href="([^"]*)"', text)
        path = html.unescape(found[1]) if found else None
        assert len(seen) < 5000
    return seen


@rows("query", ["", "session=conn-7", "verdict=refuse"])
async def test_pages_neither_miss_nor_repeat_a_call_while_others_come(tmp_path, query):
    async with audited_console(tmp_path) as other:
        await other[0].sign_in("anna")
        _, rooms = other
        records = []
        for number in range(1, 261):
            more = {"verdict": "refuse", "reason": "rule_blocked"} if number % 2 else {}
            records += [decision(number, session="conn-7" if number % 3 else "conn-8", **more), outcome(number)]
        write(rooms.log, records)
        every = {
            "": list(range(260, 0, -1)),
            "session=conn-7": [number for number in range(260, 0, -1) if number % 3],
            "verdict=refuse": [number for number in range(260, 0, -1) if number % 2],
        }[query]
        seen = await follow(other, f"/audit?{query}", "next")
        assert [number for number in seen if number < 5000] == every
        back = await follow(other, f"/audit?{query}&after=1", "prev")
        assert sorted(set(back)) == sorted(set(back) & {*every, *range(5000, 5100)})
        old = [number for number in back if number < 5000]
        first = every[::-1][1:]
        # The last page is the newest one, whole: only there a call may be met twice.
        assert list(dict.fromkeys(old)) == [number for number in first if number in old]
        assert set(first) == set(old)


def found_in(rooms, wanted, **options):
    with rooms.store.audit_reading() as tables:
        return search(tables, wanted, **options)


async def test_a_search_that_takes_long_stops_and_goes_on(other, monkeypatch):
    _, rooms = other
    monkeypatch.setattr("callgate.audit.reading._STEP", 10)
    monkeypatch.setattr("callgate.audit.reading._STEP_WITHIN", 10)
    rare = {3: "rare", 40: "rare"}
    write(rooms.log, [decision(number, tool=rare.get(number, "read")) for number in range(1, 101)])
    for wanted in (Search(Filter(tool="rare")), Search(Filter(tool="rare"), session=None, agent=None, approved=False)):
        met, before, steps = [], None, 0
        while True:
            found = found_in(rooms, wanted, before=before, tired=lambda: True)
            met += [one.decision.call for one in found.entries]
            steps += 1
            if found.older is None:
                break
            assert found.reached is not None
            before = found.older
        assert met == [decision(40).call, decision(3).call]
        assert steps == 10
    forward = found_in(rooms, Search(Filter(tool="rare")), after=1, limit=1, tired=lambda: True)
    assert [one.decision.call for one in forward.entries] == [decision(3).call]
    assert forward.reached is not None
    on = found_in(rooms, Search(Filter(tool="rare")), after=forward.newer, limit=1)
    assert [one.decision.call for one in on.entries] == [decision(40).call]


async def test_a_page_that_stopped_says_so(other, monkeypatch):
    _, rooms = other
    write(rooms.log, [decision(number) for number in range(1, 30)])
    monkeypatch.setattr("callgate.audit.reading._STEP", 10)
    monkeypatch.setattr("callgate.console.pages.audit.out_of_time", lambda: lambda: True)
    text = await ask(other, "/audit?tool=nothing")
    assert "Nothing was found so far." in words(text)
    assert "Search further back" in words(text)


# -- one call --------------------------------------------------------------------------------------------------


async def test_a_call_has_everything_on_record(place):
    text = words(await ask(place, f"/audit/{decision(13).call}"))
    for said in (
        "send_mail on mail",
        "rule_blocked",
        "Only a stranger named the recipient.",
        "A rule of the policy forbids this call.",
        "secrets-leave",
        "financial",
        "open world",
        "agent-7",
        "/tmp/13",
        "It never reached the server.",
    ):
        assert said in text
    ended = words(await ask(place, f"/audit/{decision(1).call}"))
    assert "result" in ended
    assert "5 ms" in ended


async def test_an_approval_is_verified_again_from_the_record(other):
    console, rooms = other
    person = console.people["anna"]
    asked = await console.ask()
    done = await console.post(f"/approve/{asked.id}/approve", await console.signed(asked, person), person)
    assert done.status == 200
    kept = await console.stored(asked)
    facts = {"request": kept.id, "user": kept.user, "server_id": "urn:test:files", **kept.evidence}
    whole = {"tool": kept.tool, "arguments": Arguments("whole", ARGUMENTS)}
    write(rooms.log, [decision(1, extra={"approval": facts}, **whole), outcome(1)])
    other_call = {"tool": kept.tool, "arguments": Arguments("whole", {**ARGUMENTS, "limit": 1})}
    write(rooms.log, [decision(2, extra={"approval": facts}, **other_call), decision(3)])
    text = words(await ask(other, f"/audit/{decision(1).call}"))
    for said in ("The signature holds", "with tool, arguments and server in it", "anna", "Test key", console.origin):
        assert said in text
    assert f'href="/approve/{kept.id}"' in await ask(other, f"/audit/{decision(1).call}")
    forged = words(await ask(other, f"/audit/{decision(2).call}"))
    assert "The signature does not hold: the passkey signed for another call" in forged
    assert "The signature holds" not in forged
    for query in ("verdict=approved", "person=anna"):
        assert calls(await ask(other, f"/audit?{query}")) == [2, 1]
    assert calls(await ask(other, "/audit?person=ann")) == []


async def test_the_beginning_of_an_id_is_enough_where_it_is_one(place):
    text = await ask(place, f"/audit/{decision(7).call}")
    assert decision(7).call in text
    answer = await ask(place, "/audit/01testcall", 404)
    assert "Several calls begin with" in words(answer)


@rows("call", ["nobody", "x" * 200, "%00", "..%2f..", "%F0%9F%92%A3", "verify%3f"])
async def test_an_unknown_call_is_not_there(place, call):
    for path in (f"/audit/{call}", f"/audit/{call}/receipt.json"):
        await ask(place, path, 404)


async def test_the_proof_is_told_step_by_step_and_holds(place):
    _, rooms = place
    text = await ask(place, f"/audit/{decision(3).call}")
    assert 'id="proof-holds"' in text
    with rooms.store.audit_reading() as tables:
        (number, _, body), (after, _, ended) = tables.of_call(decision(3).call)
        keys = rooms.log.keyring.public_keys()
        for found in (climb(tables, number, body, keys), climb(tables, after, ended, keys)):
            assert found.holds
            assert found.steps[-1].result == found.checkpoint.root
            for step in found.steps:
                assert step.beside.hex() in text
                assert step.result.hex() in text
        assert not climb(tables, number, body + b" ", keys).holds


async def test_steps_lead_to_the_root_in_trees_of_any_form(other):
    _, rooms = other
    written = 0
    for size in (1, 2, 3, 7, 8, 9, 33):
        write(rooms.log, [decision(number) for number in range(written + 1, size + 1)])
        written = size
        rooms.log.catch_up()
        with rooms.store.audit_reading() as tables:
            for number in range(1, size + 1):
                ((record, _, body),) = tables.of_call(decision(number).call)
                assert climb(tables, record, body, rooms.log.keyring.public_keys()).holds, (size, number)


async def test_a_record_that_was_changed_is_not_proved(other):
    _, rooms = other
    write(rooms.log, [decision(1), decision(2)])
    rooms.log.catch_up()
    from sqlalchemy import text

    with rooms.store.writing() as conn:
        conn.execute(text("UPDATE audit_record SET body = replace(body, '/tmp/2', '/tmp/3') WHERE id = 2"))
        conn.execute(text("UPDATE audit_record SET body = CAST(body AS BLOB)"))
    changed = await ask(other, f"/audit/{decision(2).call}")
    assert 'id="proof-fails"' in changed
    assert 'id="proof-holds"' not in changed
    assert 'id="proof-holds"' in await ask(other, f"/audit/{decision(1).call}")
    console, _ = other
    assert (await console.post("/audit/verify", {}, console.people["anna"])).json == {"ok": False}
    assert "The log holds" not in words(await ask(other, "/audit"))


async def test_the_newest_call_is_proved_too(other):
    """Nobody else brings records into the tree here; the page does it, as the command would."""
    _, rooms = other
    write(rooms.log, [decision(1)])
    assert 'id="proof-holds"' in await ask(other, f"/audit/{decision(1).call}")


async def test_the_receipt_is_the_one_that_the_command_writes(place):
    console, rooms = place
    call = decision(2).call
    answer = await console.get(f"/audit/{call}/receipt.json", console.people["anna"])
    assert answer.status == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="receipt-{call}.json"'
    with rooms.store.audit_reading() as tables:
        made = receipt.encode(receipt.make(tables, call, rooms.log.keyring.public_keys()))
    assert answer.text.encode() == made
    verified = receipt.verify(made)
    assert (verified.decision.call, verified.outcome.outcome) == (call, "result")
    assert json.loads(base64.b64decode(json.loads(made)["decision"]["body"]))["call"] == call


async def test_a_small_log_is_verified_from_the_page(place, monkeypatch):
    console, _ = place
    person = console.people["anna"]
    assert "Nobody verified it from here" in words(await ask(place, "/audit"))
    for headers, status in (({"x-callgate-csrf": None}, 403), ({"origin": "https://evil.example"}, 403)):
        assert (await console.post("/audit/verify", {}, person, headers=headers)).status == status
    assert (await console.post("/audit/verify", {})).status in (401, 403)
    assert (await console.post("/audit/verify", {}, person)).json == {"ok": True}
    text = words(await ask(place, "/audit"))
    assert "The log holds" in text
    assert "anna verified" in text
    monkeypatch.setattr("callgate.console.pages.audit.SMALL", 3)
    refused = await console.post("/audit/verify", {}, person)
    assert refused.status == 400
    assert "callgate audit verify" in refused.json["error"]["advice"]
    assert 'id="verify"' not in await ask(place, "/audit")
