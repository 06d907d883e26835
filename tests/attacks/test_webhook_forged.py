"""Somebody who knows the receiver's address posts messages of their own, or changes, reuses or keeps ours."""

import pytest

from callgate.app.notifications import sign
from callgate.config.notify import webhook_key
from support.table import rows
from support.webhooks import SECRET, Forged, verify

AT = 1_794_800_000
BODY = b'{"event":"approval_waiting","page":"http://localhost:8420/approve/x"}'


def sent(ident="one", at=AT, body=BODY, secret=SECRET):
    return {name.decode(): value.decode() for name, value in sign(webhook_key(secret), ident, at, body)}


def test_ours_is_taken():
    assert verify(SECRET, sent(), BODY, now=AT)["event"] == "approval_waiting"


def test_one_of_several_signatures_is_enough_while_a_secret_is_changed():
    headers = sent()
    headers["webhook-signature"] = f"v1,bm9uZQ== v2,x {headers['webhook-signature']}"
    assert verify(SECRET, headers, BODY, now=AT)


@rows(
    ("change", "body"),
    [
        ({}, BODY.replace(b"localhost:8420", b"evil.example")),
        ({}, BODY + b" "),
        ({"webhook-id": "two"}, BODY),
        ({"webhook-id": ""}, BODY),
        ({"webhook-timestamp": str(AT + 1)}, BODY),
        ({"webhook-timestamp": ""}, BODY),
        ({"webhook-timestamp": "nan"}, BODY),
        ({"webhook-timestamp": "١٧٩٤٨٠٠٠٠٠"}, BODY),
        ({"webhook-signature": ""}, BODY),
        ({"webhook-signature": "v1,"}, BODY),
        ({"webhook-signature": "v1"}, BODY),
        ({"webhook-signature": "v1,é"}, BODY),
    ],
)
def test_what_was_changed_on_the_way_is_not(change, body):
    with pytest.raises(Forged):
        verify(SECRET, sent() | change, body, now=AT)


@rows("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_what_lacks_a_header_is_not(missing):
    headers = sent()
    del headers[missing]
    with pytest.raises(Forged):
        verify(SECRET, headers, BODY, now=AT)


def test_what_another_secret_signed_is_not():
    with pytest.raises(Forged):
        verify(SECRET, sent(secret="another secret of enough letters"), BODY, now=AT)


@rows("later", [301, -301, 86_400])
def test_what_was_kept_for_another_day_is_not(later):
    with pytest.raises(Forged):
        verify(SECRET, sent(), BODY, now=AT + later)


def test_a_name_and_a_time_cannot_be_moved_into_one_another():
    """`a.1` and `.2` would read as `a` and `1.2` to who only joins them; an id of ours holds no dot, a time is digits."""
    with pytest.raises(Forged):
        verify(SECRET, sent(ident=f"one.{AT}") | {"webhook-id": "one", "webhook-timestamp": f"{AT}.{AT}"}, BODY, now=AT)
