"""The pages of agents' sessions and of held results: what is on them, and who may decide."""

import html
import re

import pytest

from callgate.console.flow import draw, fit
from callgate.trust.picture import STEPS
from support.agent_sessions import HANDLE, KEY, OTHER, POISON, WARNING, furnish, hold, step, trust_over, value, walk
from support.console import live_console
from support.memory import MemoryTrust, witness
from support.registry import requirement
from support.table import rows


@pytest.fixture
def shelf():
    return MemoryTrust()


@pytest.fixture
async def console(shelf):
    await furnish(shelf)
    trust = trust_over(shelf, witness=witness)
    async with live_console(trust=trust, reviewers=("anna",)) as running:
        yield running


def words(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


async def page(console, path, user="anna"):
    person = console.people.get(user) or await console.sign_in(user)
    answer = await console.get(path, person)
    assert answer.status == 200, words(answer.text)
    return answer.text


async def test_the_list_has_every_session_with_its_labels(console):
    text = await page(console, "/sessions")
    rows = [words(one) for one in re.findall(r"<tr>.*?</tr>", text, re.DOTALL)]
    (fieldwork,) = [row for row in rows if "Fieldwork" in row]
    for said in ("127.0.0.1 Fieldwork", "malicious", "open world", "financial +2", "7", KEY[:12]):
        assert said in fieldwork
    assert any("stdio Helper" in row and "None" in row for row in rows)


async def test_a_session_is_drawn_and_told_step_by_step(console):
    text = await page(console, f"/sessions/{KEY}")
    drawn = text.split('<svg class="flow"')[1].split("</article>")[0]
    for source, target in (("result-3", "call-4"), ("user", "call-1"), ("result-5", "call-6"), ("call-4", "result-4")):
        assert f'data-from="{source}" data-to="{target}"' in drawn
    told = words(
        re.search(r'<li class="card step bad" id="step-6".*?</li>\s*(?=<li class="card|</ol>)', text, re.DOTALL)[0]
    )
    for said in ("send_mail on mail", "refused", "secrets-leave", "only a stranger named", "xy@evil.example"):
        assert said in told
    assert "only in text that a stranger may have written, step 5" in told
    assert "met nowhere before" in told
    for said in ("rule_blocked:", "What the tool does:", "Kinds of data", "(rule:"):
        assert said not in told
    assert (told.count("Financial data goes"), told.count("xy@evil.example"), told.count("rule_blocked")) == (1, 1, 1)
    assert f"callgate session declassify {KEY} --note WHY" in words(text)


@requirement("TA-007")
async def test_a_flagged_result_is_brought_to_attention(console):
    text = await page(console, f"/sessions/{KEY}")
    notice = text.split('id="malicious"')[1].split("</div></div>")[0]
    assert 'role="alert" id="malicious"' in text
    assert WARNING in words(notice)
    assert "Step 5" in words(notice)
    assert 'data-count="held"><span class="number">1</span>' in await page(console, "/sessions")


async def test_without_trust_there_is_no_such_page():
    async with live_console() as running:
        person = await running.sign_in()
        for path in ("/sessions", f"/sessions/{KEY}", "/quarantine", f"/quarantine/{HANDLE}"):
            assert (await running.get(path, person)).status == 404
        assert "Sessions" not in (await running.get("/", person)).text


@rows("path", ["/sessions", f"/sessions/{KEY}", "/quarantine", f"/quarantine/{HANDLE}"])
async def test_nobody_sees_them_who_is_not_signed_in(console, path):
    answer = await console.get(path)
    assert answer.status == 401
    assert "Fieldwork" not in answer.text
    assert "ignore" not in answer.text
    stamp = await console.get(f"{path}/stamp", accept="application/json")
    assert stamp.status in (401, 404)


async def test_the_head_of_a_session_names_every_class(console):
    text = await page(console, f"/sessions/{KEY}")
    head = words(text.split('<header class="head">')[1].split("</header>")[0])
    for said in ("malicious", "open world", "financial", "pii", "user"):
        assert said in head
    assert "+" not in head


async def test_who_looks_for_a_session_that_is_not_there_is_led_to_the_others(console):
    person = await console.sign_in()
    text = (await console.get("/sessions/ffffffff", person)).text
    main = text.split("<main")[1].split("</main>")[0]
    assert 'href="/sessions"' in main
    assert "callgate session" not in words(main)
    told = await console.get("/sessions/ffffffff", person, accept="application/json")
    assert (told.status, told.reason) == (404, "agent_session_unknown")


async def test_what_is_not_there_is_said_with_advice(console):
    person = await console.sign_in()
    for path, reason in (("/sessions/ffffffff", "agent_session_unknown"), ("/quarantine/nope", "quarantine_unknown")):
        answer = await console.get(path, person)
        assert answer.status == 404
        assert reason in answer.text


async def test_the_stamp_changes_with_each_step(console, shelf):
    person = await console.sign_in()

    async def stamps():
        found = [await console.get(path, person) for path in ("/sessions/stamp", f"/sessions/{KEY}/stamp")]
        return [one.json["stamp"] for one in found]

    before = await stamps()
    assert before == await stamps()
    await walk(shelf, KEY, step("one_more"))
    after = await stamps()
    assert before[0] != after[0]
    assert before[1] != after[1]


async def test_a_long_session_is_folded(console, shelf):
    await walk(shelf, KEY, *[step(f"t{at}", "s", value("x", "1", "untrusted", 3)) for at in range(STEPS)])
    text = await page(console, f"/sessions/{KEY}")
    assert text.count('<li class="card step') == STEPS
    assert "7 earlier steps" in words(text)
    targets = set(re.findall(r'href="(#step-\d+)"', text))
    assert all(f'id="{one[1:]}"' in text for one in targets)


async def test_a_declassified_session_says_so(console, shelf):
    await trust_over(shelf).declassify(KEY, by="root@host", note="a drill")
    text = words(await page(console, f"/sessions/{KEY}"))
    assert "Declassified by root@host" in text
    assert "a drill" in text
    assert "no labels" in text
    assert "looks like an attempt" not in text


# -- held results ------------------------------------------------------------------------------------------------


async def test_a_held_result_is_shown_whole_with_what_is_invisible_spelt_out(console):
    assert WARNING in words(await page(console, "/quarantine"))
    text = await page(console, f"/quarantine/{HANDLE}")
    said = words(text.split('<pre class="statement whole">')[1].split("</pre>")[0]).strip()
    assert said == POISON.replace("\u200b", "U+200B")
    assert "\u200b" not in text
    assert f"/sessions/{KEY}" in text


async def test_a_decision_is_recorded_with_the_person(console, shelf):
    person = await console.sign_in()
    answer = await console.act(f"/quarantine/{HANDLE}/release", {"note": " fine "}, person)
    assert (answer.status, answer.json) == (200, {"state": "released"})
    ((action, by, detail),) = shelf.witnesses
    assert (action, by, detail["note"]) == ("trust.release", "anna", "fine")
    again = await console.post(f"/quarantine/{HANDLE}/drop", {}, person)
    assert again.status >= 400
    assert again.reason == "approval_decided"
    assert len(shelf.witnesses) == 1
    text = words(await page(console, f"/quarantine/{HANDLE}"))
    assert "Released" in text
    assert "Your decision" not in text
    assert "Nothing is held back" in words(await page(console, "/quarantine"))


async def test_who_may_not_decide_can_read_only(console, shelf):
    bert = await console.sign_in("bert")
    assert "You can read here, and not decide." in words(await page(console, f"/quarantine/{HANDLE}", "bert"))
    for way in ("release/options", "drop"):
        answer = await console.post(f"/quarantine/{HANDLE}/{way}", {}, bert)
        assert (answer.status, answer.reason) == (403, "not_a_reviewer")
    assert (await shelf.held(HANDLE)).state == "held"
    assert 'data-count="held" hidden' in await page(console, "/sessions", "bert")


async def test_another_site_decides_nothing(console, shelf):
    person = await console.sign_in()
    signed = await console.challenge(f"/quarantine/{HANDLE}/release", {}, person)
    for headers in (
        {"origin": "https://evil.example"},
        {"x-callgate-csrf": "wrong"},
        {"x-callgate-csrf": None},
        {"sec-fetch-site": "cross-site"},
    ):
        for way, body in (("drop", {}), ("release/options", {}), ("release", signed)):
            answer = await console.post(f"/quarantine/{HANDLE}/{way}", body, person, headers=headers)
            assert answer.reason == "forged_request"
    assert (await console.post(f"/quarantine/{HANDLE}/drop", {"state": "held"}, person)).reason == "invalid_params"
    assert (await console.post(f"/quarantine/{HANDLE}/drop", {})).status == 401
    assert (await console.post(f"/quarantine/{HANDLE}/release", signed)).status == 401
    assert (await shelf.held(HANDLE)).state == "held"


async def test_the_badge_follows(console, shelf):
    await page(console, "/")
    await hold(shelf, OTHER)
    console.clock.ahead += 10
    # The service keeps its own time, so that the count is at most a few seconds old.
    person = console.people["anna"]
    await console.post(f"/quarantine/{HANDLE}/drop", {}, person)
    assert 'data-count="held"><span class="number">1</span>' in await page(console, "/sessions")


# -- the drawing -------------------------------------------------------------------------------------------------


async def test_boxes_do_not_overlap_and_all_is_inside(shelf):
    await furnish(shelf, extra=50)
    drawing = draw(await trust_over(shelf).view(KEY))
    for one in drawing["boxes"]:
        assert one.x >= 0
        assert one.right <= drawing["width"]
        assert one.y + one.height <= drawing["height"]
        for other in drawing["boxes"]:
            apart = one.y + one.height <= other.y or other.y + other.height <= one.y
            beside = one.right <= other.x or other.right <= one.x
            assert one is other or apart or beside
    for stroke in drawing["strokes"]:
        numbers = [int(number) for number in re.findall(r"-?\d+", stroke.path)]
        assert min(numbers) >= 0
        assert max(numbers) <= max(drawing["width"], drawing["height"])


@rows(
    ("text", "shown"),
    [
        ("short", "short"),
        ("x" * 50, "x" * 9 + "…"),
        ("日本語日本語", "日本語日…"),
        ("a\u202eb", "a\\u202eb"),
        ("\u202e" * 9, "\\u202e\\u2…"),
        ("", ""),
    ],
)
def test_texts_are_cut_to_their_box(text, shown):
    assert fit(text, 76) == shown


# -- why a person is asked -----------------------------------------------------------------------------------------


async def test_why_is_shown_line_by_line_on_the_approval_page(console):
    await console.sign_in()
    why = 'A stranger decides. (rule: stranger-decides)\nto = "x\u202ey<b>": only in a stranger\'s text\n\nSources: mcp://mail'
    asked = await console.ask(why=why)
    text = await page(console, f"/approve/{asked.id}")
    block = text.split('<section class="card why"')[1].split("</section>")[0]
    lines = [html.unescape(line) for line in re.findall(r"<p>(.*?)</p>", block)]
    assert lines == [
        "A stranger decides. (rule: stranger-decides)",
        'to = "x\\u202ey<b>": only in a stranger\'s text',
        "Sources: mcp://mail",
    ]
    await console.approvals.refuse(asked.id, by="anna")
    decided = await page(console, f"/approve/{asked.id}")
    assert "(rule: stranger-decides)" in html.unescape(decided)


async def test_why_is_bounded(console):
    await console.sign_in()
    asked = await console.ask(why="w" * 3_000 + "\nx" * 30_000)
    assert len(asked.why) == 4_000
    block = (await page(console, f"/approve/{asked.id}")).split('<section class="card why"')[1].split("</section>")[0]
    assert block.count("<p>") == 61
    assert "lines more" in block
