"""Say the same arguments in another spelling, or others in a spelling that looks the same.

What JCS (RFC 8785) calls one value is one call, however it is spelt; everything else is another call, and what readers
do not agree on is no call at all.
"""

import pytest

from callgate.approval import ApprovalBounds, ApprovalSettings
from support.approval_peer import ERAS, over_pipes, refusal, signed, text_of
from support.approval_server import argv, running, ticket
from support.registry import requirement

CREATE, CALL = "approval/challenge/create", "tools/call"

SAME = [
    (b"1", b"1.0"),
    (b"100", b"1e2"),
    (b"100", b"1E+2"),
    (b"0", b"-0"),
    (b"0", b"-0.0"),
    (b"0.001", b"1e-3"),
    (b"9007199254740991", b"9007199254740991.0"),
    (b'{"a":1,"b":2}', b'{ "b" : 2 , "a" : 1 }'),
    (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1}}'),
    (rb'"\u00e9"', "\u00e9".encode().join([b'"', b'"'])),
    (rb'"\u0041\/"', b'"A/"'),
    (rb'"\ud83d\ude00"', "\U0001f600".encode().join([b'"', b'"'])),
    ('{"\ufb33":1,"\U0001f600":2}'.encode(), rb'{"\ud83d\ude00":2,"\ufb33":1}'),
]
OTHERS = [
    (b"1", b"1.5"),
    (b"1", b'"1"'),
    (b"100", b"1e3"),
    (b"9007199254740991", b"-9007199254740991"),
    (b"0.1", b"0.10000000000000002"),
    (b"[1,2]", b"[2,1]"),
    (b'{"a":1}', b'{"A":1}'),
    (rb'"\\u0041"', b'"A"'),
    ('"\u00e9"'.encode(), '"e\u0301"'.encode()),
    (b'{"a":{}}', b'{"a":[]}'),
]
NEVER = [
    (b"9007199254740992", "number_out_of_range"),
    (b"9007199254740993", "number_out_of_range"),
    (b"-9007199254740993", "number_out_of_range"),
    (b"NaN", "number_out_of_range"),
    (b"-Infinity", "number_out_of_range"),
    (b"1e400", "number_out_of_range"),
    (b'{"a":1,"a":1}', "duplicate_key"),
    (rb'{"a":1,"\u0061":2}', "duplicate_key"),
    (rb'{"\ud83d\ude00":1,"' + "\U0001f600".encode() + b'":2}', "duplicate_key"),
    (rb'"\ud83d"', "lone_surrogate"),
    (rb'{"\ude00":1}', "lone_surrogate"),
]


@pytest.fixture(scope="module", params=["modern", "handshake", "pipe"])
def caller(request, tmp_path_factory):
    """A client and its key, over HTTP in both eras and over a pipe."""
    if request.param == "pipe":
        folder = tmp_path_factory.mktemp("pipe")
        store = f"sqlite:///{folder / 'approvals.db'}"
        with over_pipes(argv("stdio", store, folder / "marks")) as peer:
            yield peer, peer.enrol(ticket(store, "alice"))
        return
    assert request.param in ERAS
    with running(settings=ApprovalSettings(bounds=ApprovalBounds(per_user=1000))) as server:
        person = server.join("alice", request.param)
        yield person.peer, person.key


def spelt(caller, asked, sent):
    """A challenge for one spelling, a call with another."""
    peer, key = caller
    challenge = peer.ask_raw(CREATE, b'{"value":%s}' % asked)["result"]
    return peer.ask_raw(CALL, b'{"value":%s}' % sent, evidence=signed(challenge, key))


@requirement("VA-076", "VA-078")
def test_one_value_is_one_call_however_it_is_spelt(caller):
    for asked, sent in SAME:
        for left, right in ((asked, sent), (sent, asked)):
            assert text_of(spelt(caller, left, right)), (left, right)


@requirement("VA-076", "VA-077", "VA-085")
def test_another_value_is_another_call_however_alike(caller):
    # Few enough to stay open at once: a pipe's server keeps to the usual bounds.
    for asked, sent in OTHERS:
        assert refusal(spelt(caller, asked, sent)) == (-32001, "argument_hash_mismatch"), (asked, sent)


@requirement("VA-079", "VA-080", "VA-081", "VA-082")
def test_what_readers_do_not_agree_on_is_no_call(caller):
    peer, _ = caller
    for value, why in NEVER:
        for method in (CREATE, CALL):
            assert refusal(peer.ask_raw(method, b'{"value":%s}' % value)) == (-32602, why), (method, value)
