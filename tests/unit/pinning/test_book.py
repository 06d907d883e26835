"""The chain of decisions: whoever changes a row, takes one away or turns it back is found out."""

import msgspec

from callgate.pinning.chain import DecisionChain
from callgate.pinning.model import Pin
from callgate.pinning.storage import ChainHead, Sealed
from support.registry import requirement
from support.table import rows

KEY, OTHER = b"k" * 32, b"o" * 32


def pin(tool, action="approve", **more):
    values = {"server_id": "npm:a@1", "lineage": "npm:a", "server": "a", "approval_hash": f"sha256:{tool}"} | more
    return Pin(action=action, tool=tool, approved_at=1, approved_by="ada", **values)


def chain(*pins, key=KEY):
    rows, head = DecisionChain(lambda: [key]).link(pins)(None)
    return list(rows), head


def read(rows, head, keys=(KEY,)):
    book = DecisionChain(lambda: list(keys))
    book.read(head, rows)
    return book


def test_the_newest_decision_holds_and_the_others_are_history():
    book = read(*chain(pin("read"), pin("write"), pin("read", "block", note="no")))
    assert book.broken == ""
    assert book.version == 3
    assert book.pin("npm:a@1", "read").action == "block"
    assert [one.action for one in book.history("npm:a@1", "read")] == ["approve", "block"]
    assert book.pin("npm:a@2", "read") is None
    assert {one.tool for one in book.pins()} == {"read", "write"}


def test_it_is_read_on_from_where_it_ended():
    rows, head = chain(pin("read"))
    book = read(rows, head)
    more, last = book.link([pin("write")])(head)
    book.read(last, more)
    assert (book.broken, book.version) == ("", 2)
    book.read(last, [])
    assert book.broken == ""


def damage():
    rows, head = chain(pin("read", "block"), pin("write"), pin("delete", "block"))
    forged = msgspec.msgpack.encode(pin("delete", seq=3))
    changed = msgspec.structs.replace(rows[2], body=forged)
    yield "a body", [rows[0], rows[1], changed], head
    yield "a mac", [rows[0], msgspec.structs.replace(rows[1], mac=bytes(32)), rows[2]], head
    yield "a row gone", [rows[0], rows[2]], head
    yield "the first gone", rows[1:], head
    yield "the last gone", rows[:2], head
    yield "all gone", [], head
    yield "rows changed places", [rows[1], rows[0], rows[2]], head
    yield "rows renumbered", [msgspec.structs.replace(rows[1], seq=1), msgspec.structs.replace(rows[0], seq=2)], head
    yield "the last row gone, and the head set back to it", rows[:2], ChainHead(2, rows[1].mac, head.seal)
    yield "the head's seal", rows, msgspec.structs.replace(head, seal=bytes(32))
    yield "the head gone", rows, None
    yield "no pin", [Sealed(1, b"\x80", rows[0].mac)], head


@requirement("TP-060")
@rows(("rows", "head"), [case[1:] for case in damage()], ids=[case[0] for case in damage()])
def test_nothing_is_believed_of_a_chain_that_was_changed(rows, head):
    book = read(rows, head)
    assert book.broken
    assert book.pin("npm:a@1", "write") is None
    assert list(book.pins()) == []
    assert book.latest_of("npm:a", "write") is None


@requirement("TP-060")
def test_a_chain_under_another_key_is_not_believed():
    assert read(*chain(pin("read"), key=OTHER)).broken
    assert read(*chain(pin("read")), keys=()).broken


def test_a_retired_key_still_verifies_what_it_sealed():
    rows, head = chain(pin("read"), key=OTHER)
    book = read(rows, head, keys=(KEY, OTHER))
    more, last = book.link([pin("write")])(head)
    book.read(last, more)
    assert (book.broken, book.version) == ("", 2)


def test_a_decision_of_another_scheme_is_not_guessed_at():
    assert "another version" in read(*chain(pin("read", scheme=2))).broken


def test_a_broken_chain_stays_broken_whatever_follows():
    rows, head = chain(pin("read"))
    book = read([], head)
    book.read(head, rows)
    assert book.broken
