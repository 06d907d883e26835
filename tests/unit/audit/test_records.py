import json

import msgspec
import pytest

from callgate.audit import AdminRecord, Arguments
from callgate.audit.records import COLUMN_CHARS, decode, encode, row
from callgate.store import ADMIN, DECISION, OUTCOME
from support.auditing import decision, outcome
from support.table import rows


def test_a_record_says_its_kind_and_version_and_leaves_out_what_is_not_there():
    said = json.loads(encode(outcome(1, ms=None)))
    assert said == {"kind": "outcome", "v": 1, "call": outcome(1).call, "at": outcome(1).at, "outcome": "result"}
    assert list(json.loads(encode(decision(1))))[:3] == ["kind", "v", "call"]


@rows(
    "record",
    [
        decision(1),
        decision(2, verdict="refuse", reason="check_failed", detail="d", caller={"id": "a"}, extra={"pin": [1]}),
        outcome(1, code=-32000, bytes=12, result_hash="sha256:00"),
        AdminRecord(at=1, action="block_all.on", by="alice", detail={"note": "n"}),
    ],
)
def test_records_survive_being_stored(record):
    assert decode(encode(record)) == record


def test_arguments_can_be_spliced_in_as_they_were_sent():
    raw = b'{ "b": 1.0, "a": [1e3] }'
    body = encode(decision(1, arguments=Arguments("whole", msgspec.Raw(raw))))
    assert raw in body
    assert decode(body).arguments.value == {"b": 1.0, "a": [1000.0]}


@rows(
    "body",
    [
        b"",
        b"null",
        b'{"kind":"other","v":1}',
        b'{"kind":"admin","v":2,"at":1,"action":"a","by":"b"}',
        b'{"kind":"admin","v":1,"at":"x","action":"a","by":"b"}',
        b'{"kind":"outcome","v":1}',
    ],
)
def test_what_is_no_record_of_this_version_is_refused(body):
    with pytest.raises(msgspec.MsgspecError):
        decode(body)


def test_columns_repeat_the_record():
    refused = decision(1, verdict="refuse", reason="check_failed")
    assert row(refused, b"b", b"s")[:7] == (
        DECISION,
        refused.at,
        refused.call,
        "files",
        "read",
        "refuse",
        "check_failed",
    )
    assert row(outcome(1), b"b", b"s")[:7] == (OUTCOME, outcome(1).at, outcome(1).call, None, None, None, "result")
    admin = AdminRecord(at=5, action="keys.rotate", by="a")
    assert row(admin, b"b", b"s")[:7] == (ADMIN, 5, None, None, None, None, "keys.rotate")


def test_columns_hold_what_a_database_can_hold():
    made = row(decision(1, tool="\0" + "t" * 9999), b"b", b"s")
    assert made.tool == "\ufffd" + "t" * (COLUMN_CHARS - 1)
