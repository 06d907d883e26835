"""What is hashed is what was sent: nothing filled in, nothing coerced, nothing rewritten (SEP-2672 §4.6)."""

import asyncio
import hashlib

import pytest
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.approval import ApprovalBounds, ApprovalSettings
from callgate.approval.action import from_base64url
from support.approval_peer import ERAS, HttpPeer, refusal, signed, text_of
from support.approval_server import listening, running
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

SERVER_ID = "https://files.example"
MISMATCH = (-32001, "argument_hash_mismatch")


@pytest.fixture(scope="module")
def library():
    with running(server_id=SERVER_ID, settings=ApprovalSettings(bounds=ApprovalBounds(per_user=1000))) as server:
        yield server


@pytest.fixture(scope="module", params=ERAS)
def person(library, request):
    return library.join(f"person-{request.param}", request.param)


def moved(person, before, after):
    """An approval for one value, sent with another."""
    evidence = person.signs(person.challenge("keep", {"value": before}))
    return person.call("keep", {"value": after}, evidence)


class TestDefaults:
    """A tool whose parameter has a default."""

    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls):
        approval = VerifiedApproval(store=MemoryShelf(), user="alice")
        mcp = MCPServer("defaults", extensions=[approval], log_level="ERROR")

        @approval.tool(mcp)
        def deploy(where: str, review: bool = True) -> str:
            return f"deployed to {where}, review {review}"

        with listening(approval.http_app(mcp)) as url:
            peer = HttpPeer(url)
            peer.key = peer.enrol(asyncio.run(approval.approvals.ticket("alice", by="operator")))
            yield peer

    @requirement("VA-084")
    def test_a_default_is_not_filled_in_before_hashing(self, peer):
        challenge = peer.challenge("deploy", {"where": "prod"})
        assert "review" not in challenge["displayText"]
        filled = peer.call("deploy", {"where": "prod", "review": True}, signed(challenge, peer.key))
        assert refusal(filled) == MISMATCH
        answer = peer.call("deploy", {"where": "prod"}, signed(challenge, peer.key))
        assert text_of(answer) == "deployed to prod, review True"


@requirement("VA-085")
@rows(("before", "after"), [("1", 1), (1, "1"), (True, 1), (1, True), (None, "null"), (0, False), ([1], 1), ("", None)])
def test_types_are_not_coerced(person, before, after):
    assert refusal(moved(person, before, after)) == MISMATCH


@requirement("VA-086")
@rows(
    ("before", "after"),
    [
        ("a b", "a  b"),
        ("a", "a\n"),
        ("a", " a"),
        ({"a": 1}, {"a": 1, "b": None}),
        ([], [None]),
        ([1, 2], [2, 1]),
        ({}, []),
    ],
)
def test_nothing_is_trimmed_dropped_or_sorted(person, before, after):
    assert refusal(moved(person, before, after)) == MISMATCH


@requirement("VA-086")
def test_a_member_that_the_tool_does_not_know_is_part_of_it(library, person):
    evidence = person.signs(person.challenge("delete_resource", {"resourceId": "a"}))
    more = {"resourceId": "a", "force": True}
    assert refusal(person.call("delete_resource", more, evidence)) == MISMATCH


@requirement("VA-077")
def test_composed_and_decomposed_text_stay_two_texts(person):
    assert refusal(moved(person, "caf\u00e9", "cafe\u0301")) == MISMATCH
    assert text_of(moved(person, "caf\u00e9", "caf\u00e9")) == '"caf\\u00e9"'


@requirement("VA-076")
def test_the_order_of_keys_on_the_wire_is_free(person):
    first, second = {"b": 1, "a": {"z": 1, "y": 2}}, {"a": {"y": 2, "z": 1}, "b": 1}
    assert "content" in moved(person, first, second)["result"]


@requirement("VA-078")
def test_keys_are_sorted_by_utf16_code_units(person):
    value = {"\ufb33": 1, "\U0001f600": 2}
    evidence = person.signs(person.challenge("keep", {"value": value}))
    assert "content" in person.call("keep", {"value": dict(reversed(value.items()))}, evidence)["result"]
    # U+1F600 begins with the code unit D83D, before FB33: it comes first although its code point is higher.
    raw = '{"value":{"\U0001f600":2,"\ufb33":1}}'
    signed_over = person.challenge("keep", {"value": value})["requestOptions"]["challenge"]
    expected = hashlib.sha256(b"\0".join((b"keep", raw.encode(), SERVER_ID.encode()))).digest()
    assert from_base64url(signed_over)[32:] == expected


@requirement("VA-079")
@rows("number", ["9007199254740992", "-9007199254740992", "1" + "0" * 30, "1e400", "-1e999"])
def test_numbers_that_readers_do_not_agree_on(library, person, number):
    for method in ("approval/challenge/create", "tools/call"):
        answer = person.peer.ask_raw(method, b'{"value":%s}' % number.encode())
        assert refusal(answer) == (-32602, "number_out_of_range"), method


@requirement("VA-079")
def test_the_largest_numbers_that_all_agree_on(person):
    for number in (9007199254740991, -9007199254740991):
        assert text_of(moved(person, number, number)) == str(number)


@requirement("VA-080")
@rows("token", [b"NaN", b"Infinity", b"-Infinity"])
def test_tokens_that_are_not_json(person, token):
    for method in ("approval/challenge/create", "tools/call"):
        answer = person.peer.ask_raw(method, b'{"value":[%s]}' % token)
        assert refusal(answer) == (-32602, "number_out_of_range"), method


@requirement("VA-081")
@rows("text", [rb'"\ud800"', rb'"\udc00x"', rb'{"\ud83d":1}', rb'"\ude00\ud83d"'])
def test_half_characters(person, text):
    for method in ("approval/challenge/create", "tools/call"):
        answer = person.peer.ask_raw(method, b'{"value":%s}' % text)
        assert refusal(answer) == (-32602, "lone_surrogate"), method


@requirement("VA-082")
@rows(
    "arguments",
    [
        b'{"value":1,"value":2}',
        b'{"value":1,"value":1}',
        b'{"value":{"a":1,"b":[{"c":1,"c":2}]}}',
        rb'{"value":{"a":1,"\u0061":2}}',
    ],
)
def test_a_key_that_is_there_twice(person, arguments):
    for method in ("approval/challenge/create", "tools/call"):
        assert refusal(person.peer.ask_raw(method, arguments)) == (-32602, "duplicate_key"), method


def test_a_key_twice_in_the_evidence_or_the_envelope(person):
    peer = person.peer
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wipe","name":"keep"}}'
    assert refusal(peer.send(message, "tools/call", "keep")) == (-32602, "duplicate_key")
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping","params":{"name":"wipe"}}'
    assert refusal(peer.send(message, "tools/call", "wipe")) == (-32600, "duplicate_key")


@requirement("VA-087")
def test_a_nul_in_an_argument_does_not_move_the_border(person):
    """Canonical JSON spells NUL as an escape, so it cannot pass for the separator of §4.6."""
    assert text_of(moved(person, "a\0b", "a\0b")) == '"a\\u0000b"'
    assert refusal(moved(person, "a\0b", "ab")) == MISMATCH
