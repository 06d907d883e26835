"""The webhook itself: signed, tried again, never in the way; what the page's own lines verify."""

from __future__ import annotations

import asyncio
import json

import pytest

from callgate.app import notifications as module
from callgate.app.notifications import Notifications, Webhook
from callgate.approval.model import ApprovalPolicy, Request
from callgate.config import Notify, Secret
from callgate.config.notify import webhook_key
from callgate.store import Block
from support.listening import receiving
from support.pinning import pinned_site
from support.raw_clients import Way
from support.shifting import tool
from support.webhooks import SECRET, Forged, verify

KEY = webhook_key(SECRET)


def request(ident: str = "one", **fields: object) -> Request:
    given = {
        "id": ident,
        "user": "ann",
        "server": "bank",
        "tool": "transfer",
        "caller": "c",
        "agent": {"client": "Helper 1"},
        "canonical": b'{"to":"the-hidden-account"}',
        "action_hash": b"h" * 32,
        "display_text": "transfer\nto: the-hidden-account",
        "policy": ApprovalPolicy("cross-platform"),
        "why": "",
        "version": None,
        "created_at": 1_794_800_000_000,
        "expires_at": 1_794_800_600_000,
    }
    return Request(**(given | fields))


def notify(url: str, **options: object) -> Notify:
    return Notify(webhook=Secret(url), secret=Secret(SECRET), **options)


@pytest.fixture
def hasty(monkeypatch):
    """No pause between two tries."""
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


async def told_of(section: Notify, receiver, act) -> list:
    notices = Notifications()
    notices.follow(section)
    act(notices)
    await notices.close()
    return receiver.rest()


async def test_a_message_is_verified_by_the_lines_of_the_page():
    with receiving() as receiver:
        (got,) = await told_of(notify(receiver.url), receiver, lambda n: n.approval_waiting(request(), "http://p/1"))
    told = verify(SECRET, got.headers, got.body)
    assert told["event"] == "approval_waiting"
    assert (told["request"], told["page"], told["asked_by"]) == ("one", "http://p/1", "Helper 1")
    assert got.headers["content-type"] == "application/json"


async def test_a_secret_may_be_plain_text():
    secret = "0123456789abcdef0123456789abcdef"
    with receiving() as receiver:
        section = Notify(webhook=Secret(receiver.url), secret=Secret(secret))
        (got,) = await told_of(section, receiver, lambda n: n.approval_waiting(request(), "p"))
    assert verify(secret, got.headers, got.body)["request"] == "one"


async def test_arguments_go_only_where_the_operator_wants_them():
    with receiving() as receiver:
        for wanted in (False, True):
            section = notify(receiver.url, arguments=wanted)
            (got,) = await told_of(section, receiver, lambda n: n.approval_waiting(request(), "p"))
            assert (b"the-hidden-account" in got.body) is wanted
    assert got.json["arguments"] == {"to": "the-hidden-account"}


async def test_a_message_that_fails_is_sent_again_with_the_same_id_and_a_signature_of_its_own(hasty):
    with receiving(500, 503, 204) as receiver:
        hook = Webhook(Secret(receiver.url), KEY)
        hook.send({"event": "x"}, "same")
        tries = [await asyncio.to_thread(receiver.next) for _ in range(3)]
        while hook._under_way:
            await asyncio.sleep(0.01)
        await hook.close()
        assert receiver.got.empty()
    for got in tries:
        assert verify(SECRET, got.headers, got.body) == {"event": "x"}
        assert got.headers["webhook-id"] == "same"


async def test_tries_are_bounded_and_the_failure_is_logged(hasty, caplog):
    with receiving(500) as receiver:
        hook = Webhook(Secret(receiver.url), KEY)
        hook.send({"event": "x"})
        for _ in range(module._TRIES):
            await asyncio.to_thread(receiver.next)
        while not caplog.records:
            await asyncio.sleep(0.01)
        await hook.close()
        assert receiver.got.empty()
    assert [one.message for one in caplog.records] == ["alert not delivered"]


async def test_one_that_fails_does_not_hold_up_the_next(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 3600.0)
    with receiving(500, 204) as receiver:
        notices = Notifications()
        notices.follow(notify(receiver.url))
        notices.approval_waiting(request("fails"), "p")
        assert (await asyncio.to_thread(receiver.next)).json["request"] == "fails"
        notices.approval_waiting(request("next"), "p")
        assert (await asyncio.to_thread(receiver.next)).json["request"] == "next"
        # At the end what is left is tried once more.
        await notices.close()
        again = await asyncio.to_thread(receiver.next)
        if again.json["request"] == "next":
            # Its answer was still on the way.
            again = await asyncio.to_thread(receiver.next)
        assert again.json["request"] == "fails"


async def test_a_request_is_told_of_once():
    def twice(notices):
        notices.approval_waiting(request(), "p")
        notices.approval_waiting(request(), "p")

    with receiving() as receiver:
        assert len(await told_of(notify(receiver.url), receiver, twice)) == 1


async def test_tools_of_one_server_come_in_one_message():
    def many(notices):
        for number in range(80):
            notices.tools_changed("bank", "new", {"tool": f"tool{number}"})
        notices.tools_changed("bank", "text", {"tool": "old"})
        notices.tools_changed("bank", "gone", {"tool": "lost"})

    with receiving() as receiver:
        section = notify(receiver.url, events=("tool_pending",))
        (got,) = await told_of(section, receiver, many)
    assert (got.json["event"], got.json["count"], got.json["changed"]) == ("tool_pending", 81, ["old"])
    assert got.json["new"] == [f"tool{number}" for number in range(50)]


async def test_only_what_is_asked_for_is_told():
    def everything(notices):
        notices.approval_waiting(request(), "p")
        notices.tools_changed("bank", "new", {"tool": "t"})
        notices.switch_turned(Block(on=True, at=5, by="ann"))

    with receiving() as receiver:
        got = await told_of(notify(receiver.url, events=("kill_switch",)), receiver, everything)
    assert [json.loads(one.body)["event"] for one in got] == ["kill_switch"]


async def test_a_new_configuration_is_followed_and_nothing_is_lost():
    with receiving() as old, receiving() as new:
        notices = Notifications()
        notices.follow(notify(old.url))
        notices.approval_waiting(request("one"), "p")
        notices.follow(notify(new.url))
        notices.approval_waiting(request("two"), "p")
        notices.follow(notify(new.url))
        assert (await asyncio.to_thread(old.next)).json["request"] == "one"
        assert (await asyncio.to_thread(new.next)).json["request"] == "two"
        notices.follow(Notify())
        notices.approval_waiting(request("three"), "p")
        await notices.close()
        # A message whose answer was still under way is sent again with its id; nobody is told of the third.
        assert {message.json["request"] for message in old.rest()} <= {"one"}
        assert {message.json["request"] for message in new.rest()} <= {"two"}


async def test_without_a_webhook_nothing_happens():
    notices = Notifications()
    notices.follow(Notify())
    notices.approval_waiting(request(), "p")
    notices.switch_turned(Block(on=True, at=5, by="ann"))
    await notices.close()


def test_the_page_verifies_with_the_published_vector():
    """From the specification of Standard Webhooks: its own library gives this signature."""
    secret, ident, at = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
    headers = {
        "webhook-id": ident,
        "webhook-timestamp": at,
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify(secret, headers, b'{"test": 2432232314}', now=int(at)) == {"test": 2432232314}
    assert dict(module.sign(webhook_key(secret), ident, int(at), b'{"test": 2432232314}')) == {
        name.encode(): value.encode() for name, value in headers.items()
    }
    with pytest.raises(Forged):
        verify(secret, headers, b'{"test": 2432232314}', now=int(at) + 301)


def test_a_new_version_of_a_reviewed_server_is_told_of(tmp_path):
    with receiving() as receiver:
        section = {"webhook": receiver.url, "secret": SECRET, "events": ["tool_pending"]}
        with pinned_site(tmp_path, notify=section) as site:
            site["web"].fresh(tool("read"))
            way = Way("serve", "legacy", "web")
            visitor = site.visit(way)
            assert visitor.names() == []
            assert receiver.next().json["new"] == ["read"]
            site.approve("web", "read")
            visitor.until_open("read")
            site["web"].be(version="1.0.1")
            assert site.again(visitor, way).names() == []
            told = receiver.next().json
            assert (told["event"], told["server"], told["new"]) == ("tool_pending", "web", ["read"])
