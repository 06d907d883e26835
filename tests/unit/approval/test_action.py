"""The action hash of SEP-2672 §4.6 against bytes written by hand, and what it tells apart."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from callgate.approval.action import action_hash, check_server_id, check_tool_name, from_base64url
from callgate.canonical import canonical
from callgate.errors import ConfigError, Reason, Refused
from support.ceremonies import ARGUMENTS, GATED, SERVER_ID, Scene, authenticator, evidence
from support.registry import requirement
from support.table import rows

JCS = Path(__file__).resolve().parents[2] / "data" / "jcs"
ANYTHING = msgspec.structs.replace(GATED, input_schema=None)


@rows(
    ("tool", "arguments", "server_id", "hashed", "digest"),
    [
        pytest.param(
            "delete_resource",
            {"resourceId": "abc123"},
            "https://files.example",
            b'delete_resource\0{"resourceId":"abc123"}\0https://files.example',
            "af24d023c725902ea23781504a41bdd5fff288511a70a63ff117e3cb8b334174",
            id="plain",
        ),
        pytest.param(
            "place_trade",
            {"n": 1e2, "b": [True, None], "a": -0.0},
            "urn:x",
            b'place_trade\0{"a":0,"b":[true,null],"n":100}\0urn:x',
            "f6c991fddde1ea05932c6f9a092bb96bf7495975cbfadbaf6c51ff76b468a390",
            id="numbers-and-order",
        ),
        pytest.param(
            "löschen",
            {"ü": "€"},
            "urn:ö",
            b'l\xc3\xb6schen\0{"\xc3\xbc":"\xe2\x82\xac"}\0urn:\xc3\xb6',
            "c580a351ab1b4567efe6ea5c0701e4a469341fa83cd0002afeb4d0b87ea2e084",
            id="utf-8",
        ),
        pytest.param(
            "t",
            {},
            "urn:x",
            b"t\0{}\0urn:x",
            "62a4f3e715fe0d48b7f47cd896f5118f2bc3257c292b1b255b1eff0c8187c514",
            id="no-arguments",
        ),
        pytest.param(
            "t",
            {"\ufb33": 2, "\U0001f600": 1},
            "urn:x",
            b't\0{"\xf0\x9f\x98\x80":1,"\xef\xac\xb3":2}\0urn:x',
            "eef70ee6275096c9fe03bc41b194fb71709842ac49a6825da2788eeed60b3e75",
            id="utf-16-order",
        ),
    ],
)
@requirement("VA-087", "VA-078")
def test_the_hash_is_that_of_three_fields_parted_by_nul(tool, arguments, server_id, hashed, digest):
    found = action_hash(tool, canonical(arguments), server_id)
    assert hashlib.sha256(hashed).hexdigest() == digest
    assert found.hex() == digest


@rows("name", ["french", "structures", "unicode", "values", "weird"])
@requirement("VA-076", "VA-087")
async def test_published_vectors_are_hashed_byte_for_byte(name):
    """The committed half of the challenge is made of the published output, not of what was sent."""
    sent = json.loads((JCS / "input" / f"{name}.json").read_text("utf-8"))
    published = (JCS / "output" / f"{name}.json").read_bytes()
    scene = Scene()
    await scene.enrol(authenticator())
    issued = await scene.issue(ANYTHING, sent)
    challenge = from_base64url(issued.result["requestOptions"]["challenge"])
    assert challenge[32:] == hashlib.sha256(b"delete_resource\0" + published + b"\0" + SERVER_ID.encode()).digest()


async def told(signed_for, sent):
    """What becomes of a call with the second JSON text that was approved with the first; None if it passes."""
    scene, key = Scene(), authenticator()
    await scene.enrol(key)
    given = evidence(await scene.issue(ANYTHING, json.loads(signed_for)), key)
    try:
        await scene.call(given, ANYTHING, json.loads(sent))
    except Refused as refused:
        return refused.reason.value
    return None


@rows(
    ("one", "other"),
    [
        ('{"n":1}', '{"n":1.0}'),
        ('{"n":100}', '{"n":1e2}'),
        ('{"n":0}', '{"n":-0}'),
        ('{"n":0}', '{"n":-0.0}'),
        ('{"n":1e21}', '{"n":1000000000000000000000.0}'),
        ('{"n":0.1}', '{"n":0.10000000000000000001}'),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":{"y":[],"x":{}}}', ' { "a" : {"x":{},"y":[ ]} } '),
        ('{"s":"A/"}', '{"s":"\\u0041\\/"}'),
        ('{"\\ud83d\\ude00":1}', '{"\U0001f600":1}'),
    ],
)
@requirement("VA-076")
async def test_spellings_of_one_value_are_one_call(one, other):
    assert await told(one, other) is None


@rows(
    ("one", "other"),
    [
        pytest.param('{"k":"\u00e9"}', '{"k":"e\u0301"}', id="nfc-nfd", marks=requirement("VA-077")),
        pytest.param('{"\u00e9":1}', '{"e\u0301":1}', id="nfc-nfd-key", marks=requirement("VA-077")),
        pytest.param('{"n":"1"}', '{"n":1}', id="text-number", marks=requirement("VA-085")),
        pytest.param('{"n":"true"}', '{"n":true}', id="text-bool", marks=requirement("VA-085")),
        pytest.param('{"n":1}', '{"n":true}', id="number-bool", marks=requirement("VA-085")),
        pytest.param('{"n":null}', "{}", id="null-absent", marks=requirement("VA-086")),
        pytest.param('{"n":[1]}', '{"n":1}', id="list-item", marks=requirement("VA-085")),
        pytest.param('{"n":[1,2]}', '{"n":[2,1]}', id="order-of-a-list"),
        pytest.param('{"s":"a"}', '{"s":"a "}', id="space-in-a-text", marks=requirement("VA-086")),
        pytest.param('{"s":"a"}', '{"s":"a","x":1}', id="unknown-member", marks=requirement("VA-086")),
        pytest.param('{"n":9007199254740991}', '{"n":9007199254740990}', id="last-safe-integer"),
        pytest.param('{"n":1}', '{"n":1.0000000000000002}', id="next-double"),
    ],
)
@requirement("VA-125")
async def test_other_values_are_other_calls(one, other):
    assert await told(one, one) is None
    assert await told(one, other) == "argument_hash_mismatch"
    assert await told(other, one) == "argument_hash_mismatch"


@requirement("VA-084")
async def test_defaults_of_the_schema_are_not_filled_in():
    schema = {"type": "object", "properties": {"force": {"type": "boolean", "default": False}}}
    gated = msgspec.structs.replace(GATED, input_schema=schema)
    scene, key = Scene(), authenticator()
    await scene.enrol(key)
    await scene.call(evidence(await scene.issue(gated, {}), key), gated, {})
    given = evidence(await scene.issue(gated, {}), key)
    with pytest.raises(Refused) as refused:
        await scene.call(given, gated, {"force": False})
    assert refused.value.reason is Reason.ARGUMENT_HASH_MISMATCH


@requirement("VA-092")
async def test_another_server_id_makes_open_challenges_useless():
    scene, key = Scene(), authenticator()
    await scene.enrol(key)
    given = evidence(await scene.issue(), key)
    with pytest.raises(Refused) as refused:
        await scene.call(given, msgspec.structs.replace(GATED, server_id="urn:rotated"))
    assert refused.value.reason is Reason.ARGUMENT_HASH_MISMATCH
    await scene.call(given)


@requirement("VA-172")
async def test_an_approval_for_one_server_is_none_for_another_with_the_same_tool_and_passkey():
    first, second, key = Scene(), Scene(), authenticator()
    await first.enrol(key)
    await second.approvals.add_user("ann", by="operator")
    for row in first.shelf.rows("passkey"):
        second.shelf.execute(f"INSERT INTO passkey VALUES ({', '.join('?' * len(row))})", *row)
    given = evidence(await first.issue(), key)
    other = msgspec.structs.replace(GATED, server_id="urn:another")
    with pytest.raises(Refused) as refused:
        await second.call(given, other)
    assert refused.value.reason is Reason.CHALLENGE_UNKNOWN
    # Even where both know the challenge, as two servers behind one gateway do.
    with pytest.raises(Refused) as refused:
        await first.call(given, other)
    assert refused.value.reason is Reason.ARGUMENT_HASH_MISMATCH


async def test_the_server_id_does_not_travel():
    scene = Scene()
    await scene.enrol(authenticator())
    issued = await scene.issue()
    assert SERVER_ID not in json.dumps(issued.result)
    assert SERVER_ID.encode() not in from_base64url(issued.result["requestOptions"]["challenge"])


@rows("name", ["", "a\0b", "\0", "x" * 1025, "a\ud800"], ids=["empty", "nul", "only-nul", "long", "half"])
@requirement("VA-088")
async def test_a_tool_name_that_cannot_be_hashed_is_refused(name):
    with pytest.raises(Refused):
        check_tool_name(name)
    scene = Scene()
    await scene.enrol(authenticator())
    with pytest.raises(Refused) as refused:
        await scene.issue(msgspec.structs.replace(GATED, tool=name))
    assert refused.value.code == -32602
    with pytest.raises(Refused):
        await scene.approvals.ask(
            msgspec.structs.replace(GATED, tool=name), ARGUMENTS, b"{}", "ann", caller="c", agent={}
        )


def test_a_nul_would_move_the_border_between_the_fields():
    """Why the names are checked: the hash itself cannot tell these apart."""
    assert action_hash("a", b"{}", "b\0c") == action_hash("a\0{}", b"b", "c")


@rows(
    "server_id",
    [
        pytest.param("a\0b", marks=requirement("VA-089")),
        pytest.param("", marks=requirement("VA-094")),
        pytest.param("  ", marks=requirement("VA-094")),
        pytest.param("mcp-default", marks=requirement("VA-094")),
        pytest.param("MCP-Default", marks=requirement("VA-094")),
        pytest.param(" default ", marks=requirement("VA-094")),
        pytest.param("callgate", marks=requirement("VA-094")),
        pytest.param("line\nbreak"),
    ],
    ids=repr,
)
def test_a_server_id_that_others_could_have_is_a_mistake(server_id):
    with pytest.raises(ConfigError):
        check_server_id(server_id)


@rows("server_id", ["https://files.example", SERVER_ID, "a9f3"])
def test_other_server_ids_are_taken(server_id):
    assert check_server_id(server_id) == server_id
