"""Somebody puts other rules in force over the console: without the role, the passkey or the page; over a newer file,
through a link, with rules that would never hold.
"""

import html
import os

import pytest

from callgate.console.pages.policy import MOST_BYTES, StagedRules, digest, read_rules
from callgate.errors import ConfigError
from callgate.trust.policy import Policy
from support.console import whole_console
from support.past_calls import NO_MAIL, RULES
from support.policies import rule
from support.table import rows

SAVE = "/policy/save"
LOOSER = '[[rules]]\nname = "anything"\neffect = "allow"\noverride = ["stranger-decides"]\nwhen = "tool.egress"\n'
# One of each kind; what the attacks on the reader try one by one.
MISTAKES = "\n".join(
    [
        "[[rules]]\n" + rule("fact", "block", "sesion.malicious"),
        "[[rules]]\n" + rule("type", "block", "tool.destination == 3"),
        "[[rules]]\n" + rule("word", "block", "tool.destination == 'publik'"),
        "[[rules]]\n" + rule("early", "block", "session.open_world && ("),
        "[[rules]]\n" + rule("function", "block", "fetch(args.url) == 'x'"),
        "[[rules]]\n" + rule("pattern", "block", "args.x.matches('(')"),
        "[[rules]]\n" + rule("never", "block", "1 == 2"),
        "[[rules]]\n" + rule("effect", "blok", "tool.egress"),
        "[[rules]]\n" + rule("never", "block", "tool.egress"),
        "[[rules]]\n" + rule("a name <img src=x onerror=alert(1)>", "block", "tool.egress"),
        '[[rules]]\nname = "key"\neffect = "ask"\nwen = "tool.egress"',
        '[[rules]]\nname = "all"\neffect = "allow"',
        "[[rules]]\n" + rule("override", "allow", "tool.egress", override='["no-such-rule"]'),
        '[[rules]]\nname = "say"\neffect = "ask"\nsay = "\\u202e\\u0007"\nwhen = "tool.egress"',
        "[extra]",
    ]
)


@pytest.fixture
async def console(tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    async with whole_console(tmp_path, '[trust]\npolicy = "rules.toml"\n') as running:
        await running.sign_in("anna")
        await running.sign_in("bert", role="approver")
        await running.sign_in("vera", role="viewer")
        yield running


@pytest.fixture
def file(tmp_path):
    return tmp_path / "rules.toml"


def body(text=NO_MAIL, before=RULES):
    return {"text": text, "before": digest(before.encode())}


def assert_untouched(file, text=RULES):
    assert file.read_text() == text
    assert [one.name for one in file.parent.iterdir() if one.name.startswith((".rules", "rules.toml."))] == []


@rows("name", ["bert", "vera"])
async def test_by_who_may_only_approve_or_look(console, file, name):
    person = console.people[name]
    for path, sent in (
        ("/policy/try", {"text": NO_MAIL}),
        (f"{SAVE}/options", body()),
        (SAVE, {"body": body(), "challengeId": "x", "response": {}}),
    ):
        answer = await console.post(path, sent, person)
        assert (answer.status, answer.reason) == (403, "role_needed"), path
    page = await console.get("/policy", person)
    assert (page.status, 'id="what-if"' in page.text) == (200, False)
    assert_untouched(file)


async def test_with_a_session_and_no_passkey(console, file):
    anna = console.people["anna"]
    for sent in (body(), {"body": body()}, {"body": body(), "challengeId": "x"}):
        assert (await console.post(SAVE, sent, anna)).reason == "invalid_params"
    issued = (await console.post(f"{SAVE}/options", body(), anna)).json
    unsigned = {"body": body(), "challengeId": issued["challengeId"], "response": {}}
    assert (await console.post(SAVE, unsigned, anna)).status == 403
    answer = await console.act(SAVE, body(), anna, uv=False)
    assert (answer.status, answer.reason) == (403, "signature_verification_failed")
    assert_untouched(file)


async def test_with_a_signature_for_other_rules(console, file):
    anna = console.people["anna"]
    signed = await console.challenge(SAVE, body(), anna)
    answer = await console.post(SAVE, signed | {"body": body(LOOSER)}, anna)
    assert (answer.status, answer.reason) == (403, "argument_hash_mismatch")
    assert_untouched(file)
    assert (await console.post(SAVE, signed, anna)).status == 200
    assert (await console.post(SAVE, signed, anna)).reason == "page_outdated"


@rows(
    "headers",
    [
        {"x-callgate-csrf": "guessed"},
        {"x-callgate-csrf": None},
        {"origin": "https://evil.example"},
        {"origin": None},
        {"sec-fetch-site": "cross-site"},
        {"content-type": "text/plain"},
    ],
    ids=str,
)
async def test_from_another_site(console, file, headers):
    anna = console.people["anna"]
    signed = await console.challenge(SAVE, body(), anna)
    for path, sent in ((SAVE, signed), (f"{SAVE}/options", body()), ("/policy/try", {"text": NO_MAIL})):
        answer = await console.post(path, sent, anna, headers=headers)
        assert answer.status in (403, 415), path
        assert answer.reason in ("forged_request", "unsupported_media_type"), path
    assert_untouched(file)


async def test_over_rules_that_somebody_else_has_changed(console, file):
    anna = console.people["anna"]
    signed = await console.challenge(SAVE, body(LOOSER), anna)
    file.write_text(NO_MAIL)
    for answer in (await console.post(SAVE, signed, anna), await console.act(SAVE, body(LOOSER), anna)):
        assert (answer.status, answer.reason) == (409, "page_outdated")
    assert_untouched(file, NO_MAIL)


def test_in_the_moment_between_the_last_look_and_the_replacing(file):
    file.write_text(RULES)
    staged = StagedRules(read_rules(file), LOOSER)
    file.write_text(NO_MAIL)
    assert staged.commit() is False
    assert file.read_text() == NO_MAIL
    assert [one for one in file.parent.iterdir() if one.name.startswith(".rules")] == []


async def test_larger_than_anybody_reads(console, file):
    anna = console.people["anna"]
    for text, status, reason in (
        (RULES + "#" * MOST_BYTES, 400, "invalid_params"),
        (RULES + "# " + "é" * (MOST_BYTES // 2), 413, "message_too_large"),
        (RULES + "#" * 70_000, 413, "message_too_large"),
    ):
        for path, sent in (("/policy/try", {"text": text}), (f"{SAVE}/options", body(text))):
            answer = await console.post(path, sent, anna)
            assert (answer.status, answer.reason) == (status, reason), path
    assert_untouched(file)


async def test_with_rules_that_would_never_hold(console, file):
    anna = console.people["anna"]
    with pytest.raises(ConfigError) as caught:
        Policy.load(texts=[("rules.toml", MISTAKES)])
    assert len(caught.value.problems) >= 15
    answer = await console.post("/policy/try", {"text": MISTAKES}, anna)
    shown = html.unescape(answer.json["html"])
    assert answer.json["ok"] is False
    for problem in caught.value.problems:
        assert problem.text.split("\n")[0] in shown, problem
    assert "<img" not in answer.json["html"]
    refused = await console.act(SAVE, body(MISTAKES), anna)
    assert (refused.status, refused.reason) == (400, "policy_invalid")
    # Nor is anything saved that is not rules at all.
    for text in ("not rules", "{", "rules = []", '{"rules": "x"}'):
        assert (await console.act(SAVE, body(text), anna)).reason == "policy_invalid", text
    assert_untouched(file)


async def test_through_a_link_to_another_file(console, file, tmp_path):
    precious = tmp_path / "elsewhere.toml"
    precious.write_text(RULES)
    file.unlink()
    file.symlink_to(precious)
    anna = console.people["anna"]
    answer = await console.act(SAVE, body(), anna)
    assert (answer.status, answer.reason) == (400, "invalid_request")
    assert "symbolic link" in answer.json["error"]["message"]
    assert precious.read_text() == RULES
    assert file.is_symlink()
    page = (await console.get("/policy", anna)).text
    assert "symbolic link" in page
    assert 'id="save"' not in page


async def test_the_backup_does_not_follow_a_link(console, file, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "rules.toml.bak").symlink_to(precious)
    assert (await console.act(SAVE, body(), console.people["anna"])).status == 200
    assert precious.read_text() == "precious"
    assert (tmp_path / "rules.toml.bak").read_text() == RULES


@rows("what", ["a folder", "a pipe", "gone", "read-only", "in a read-only folder", "no text"])
async def test_a_file_that_is_not_to_be_written(console, file, what):
    if file.is_dir():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)
    file.write_text(RULES)
    if what == "read-only":
        file.chmod(0o444)
    elif what == "in a read-only folder":
        file.parent.chmod(0o555)
    elif what == "no text":
        file.write_bytes(b"\xff\xfe")
    else:
        file.unlink()
        if what == "a folder":
            file.mkdir()
        elif what == "a pipe":
            os.mkfifo(file)
    anna = console.people["anna"]
    try:
        answer = await console.act(SAVE, body(), anna)
        assert (answer.status, answer.reason) == (400, "invalid_request")
        page = await console.get("/policy", anna)
        assert (page.status, 'id="save"' in page.text) == (200, False)
        assert "Rules cannot be saved from here." in page.text
    finally:
        file.parent.chmod(0o700)
    assert [one.name for one in file.parent.iterdir() if one.name.startswith((".rules", "rules.toml."))] == []


async def test_where_the_log_takes_no_record_nothing_is_saved(console, file, monkeypatch):
    anna = console.people["anna"]

    def broken(*_):
        raise OSError("no")

    signed = await console.challenge(SAVE, body(), anna)
    monkeypatch.setattr(console.gateway.log, "admin", broken)
    assert (await console.post(SAVE, signed, anna)).status == 500
    assert file.read_text() == RULES
    assert [one for one in file.parent.iterdir() if one.name.startswith(".rules")] == []
