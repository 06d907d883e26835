"""The overview over a real store: what happened, drawn and in numbers, and what is wrong."""

import html
import re

import pytest
import pytest_asyncio

from callgate.console.statistics import HEIGHT, HourlyCounts, chart, shares
from callgate.store.approval import asked_by_hour
from support.audited import HOSTILE, audited_console, now_of, story, write
from support.auditing import decision, outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory):
    async with audited_console(tmp_path_factory.mktemp("overview")) as (console, rooms):
        write(rooms.log, story(now_of(console)))
        rooms.log.catch_up()
        await console.sign_in("anna")
        await console.sign_in("berta")
        yield console, rooms


def words(text):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def page(place, path="/"):
    console, _ = place
    answer = await console.get(path, console.people["anna"])
    assert answer.status == 200, words(answer.text)
    return answer.text


def number(text, name):
    return int(re.search(rf'id="sum-{name}">([\d,]+)<', text)[1].replace(",", ""))


async def test_what_happened_is_counted_and_drawn(place):
    text = await page(place)
    assert (number(text, "allowed"), number(text, "refused"), number(text, "asked")) == (13, 3, 0)
    allowed = text.split('aria-label="Calls let through: 13 in all')[1].split("</svg>")[0]
    drawn = [int(value) for value in re.findall(r"<title>[^<]*: (\d+)</title>", allowed)]
    assert sum(drawn) == 13
    reasons = text.split('id="why"')[1].split("</section>")[0]
    assert re.findall(r"<code>(\w+)</code></a></span> <span class=\"share-count\">(\d+)", reasons) == [
        ("rule_blocked", "2"),
        ("tool_not_approved", "1"),
    ]


async def test_every_chart_has_its_numbers_in_a_table(place):
    for path, rows in (("/", 24), ("/?span=7d", 28)):
        text = await page(place, path)
        assert text.count('role="img"') == text.count('aria-describedby="numbers"') == 3
        table = text.split('id="numbers"')[1].split("</details>")[0]
        lines = re.findall(r"<tr><th.*?</tr>", table, re.DOTALL)
        assert len(lines) == rows
        columns = [[int(cell) for cell in re.findall(r'<td data-label="[^"]*">(\d+)<', line)] for line in lines]
        assert [sum(column) for column in zip(*columns, strict=True)] == [13, 3, 0, 0]


async def test_the_newest_refusals_say_why(place):
    newest = (await page(place)).split('id="newest"')[1]
    assert words(newest).index("tool_not_approved") < words(newest).index("rule_blocked")
    assert "Nobody has approved this tool yet." in words(newest)
    assert f"/audit/{decision(13).call}" in newest


async def test_names_cannot_write_into_the_page(place):
    for path in ("/", "/audit", f"/audit/{decision(15).call}", "/servers/mail"):
        text = await page(place, path)
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text
        assert "\u202e" not in text
        assert "\u200b" not in text
        assert "\\u202e" in text
        assert "style=" not in text
    assert HOSTILE not in text


async def test_a_server_that_loses_calls_is_in_trouble(place):
    troubled = (await page(place)).split('id="troubled"')[1].split("</section>")[0]
    assert re.findall(r'href="/servers/(\w+)"', troubled) == ["mail"]
    assert "1 call of the last hour had no proper answer from it" in words(troubled)


async def test_what_waits_for_me_comes_first(place):
    console, _ = place
    asked = await console.ask(user="berta")
    text = (await console.get("/", console.people["berta"])).text
    assert "1 call waits for you." in words(text.split('id="calls-wait"')[1].split("</div>")[0])
    assert 'href="/approvals"' in text.split('id="calls-wait"')[1]
    assert "Nothing waits for you." in words(await page(place))
    await console.approvals.refuse(asked.id, by="berta", note="")


async def test_nobody_reads_without_signing_in(place):
    console, _ = place
    answer = await console.get("/")
    assert "rule_blocked" not in answer.text
    for path in ("/audit", f"/audit/{decision(1).call}", "/servers", "/servers/mail"):
        answer = await console.get(path)
        assert answer.status == 401
        assert decision(1).call not in answer.text.replace(f'"{path}"', "")
    assert (await console.get(f"/audit/{decision(1).call}/receipt.json")).status in (401, 403)


async def test_a_gateway_without_rooms_has_no_such_pages(console_without):
    person = await console_without.sign_in()
    for path in ("/audit", "/servers", f"/audit/{decision(1).call}"):
        assert (await console_without.get(path, person)).status == 404
    assert "Newest refusals" not in (await console_without.get("/", person)).text


@pytest_asyncio.fixture(loop_scope="module")
async def console_without():
    from support.console import live_console

    async with live_console() as running:
        yield running


# -- counting --------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module")
async def counted(tmp_path):
    async with audited_console(tmp_path) as (console, rooms):
        yield rooms, [now_of(console)]


def sums(counts):
    return tuple(sum(one.calls for one in counts.calls if one.verdict == verdict) for verdict in ("allow", "refuse"))


async def settled(tally):
    """Everything, also where the machine was too busy for it at the first look."""
    while not (found := await tally.counts()).complete:
        pass
    return found


async def test_records_are_counted_once_wherever_they_stand(counted, monkeypatch):
    """In the tree or not, counted in many small steps or in one, whether they came before the first look or after."""
    rooms, now = counted
    monkeypatch.setattr("callgate.console.statistics._CHUNK", 7)
    write(rooms.log, [decision(number, at=now[0] - number * 60_000) for number in range(1, 41)])
    rooms.log.catch_up()
    write(rooms.log, [decision(41, at=now[0], verdict="refuse", reason="rule_blocked"), outcome(41, at=now[0])])
    tally = HourlyCounts(rooms.store, lambda: now[0])
    assert sums(await settled(tally)) == (40, 1)
    write(rooms.log, [decision(42, at=now[0])])
    assert sums(await tally.counts()) == (40, 1), "what was counted is believed for a while"
    now[0] += 3_000
    assert sums(await tally.counts()) == (41, 1)
    rooms.log.catch_up()
    write(rooms.log, [decision(43 + number, at=now[0]) for number in range(30)])
    now[0] += 3_000
    assert sums(await tally.counts()) == (71, 1)
    assert (await tally.counts()).reasons() == [("rule_blocked", 1)]


async def test_what_is_older_than_a_week_is_not_counted(counted):
    rooms, now = counted
    day = 86_400_000
    write(rooms.log, [decision(number, at=now[0] - (9 - number) * day) for number in range(9)])
    rooms.log.catch_up()
    tally = HourlyCounts(rooms.store, lambda: now[0])
    assert sums(await settled(tally)) == (6, 0)
    assert sums((await tally.counts()).within(24)) == (0, 0)
    now[0] += day
    assert sums(await tally.counts()) == (5, 0)


async def test_requests_are_counted_by_the_hour_they_were_made_in(place):
    console, rooms = place
    before = now_of(console) // 3_600_000 * 3_600_000
    mine = await console.ask({"resourceId": "a"}, user="anna")
    await console.approvals.refuse(mine.id, by="anna", note="")
    with rooms.store.reading() as conn:
        found = [one for one in asked_by_hour(conn, before) if one.state == "refused"]
    assert sum(one.requests for one in found) >= 1
    assert {one.hour for one in found} <= {before // 3_600_000, before // 3_600_000 + 1}


# -- drawing ---------------------------------------------------------------------------------------------------


async def test_bars_are_as_high_as_their_share_and_never_invisible():
    drawn = chart([(0, 0), (1, 1), (2, 1000), (3, 500)])
    assert [bar["height"] for bar in drawn["bars"]] == [0, 2, HEIGHT, HEIGHT / 2]
    assert all(bar["y"] + bar["height"] == HEIGHT for bar in drawn["bars"])
    assert (drawn["total"], drawn["most"]) == (1501, 1000)
    assert chart([])["total"] == 0


async def test_reasons_beyond_the_first_few_are_put_together():
    found = shares([("a", 10), ("b", 5), ("c", 2), ("d", 1)], 2)
    assert [(one["name"], one["count"], one["width"]) for one in found] == [
        ("a", 10, 100),
        ("b", 5, 50),
        ("others", 3, 30),
    ]
    assert shares([], 3) == []
