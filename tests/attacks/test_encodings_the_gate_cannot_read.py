"""The attacker encodes the body so that the gate reads one text and the server another."""

import gzip
import zlib

from support.table import rows

BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{}}}'


@rows("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7", "utf-8-sig"])
def test_another_encoding(target, encoding):
    body = BODY.replace("rm", "r+m").encode(encoding) if encoding == "utf-7" else BODY.encode(encoding)
    if encoding == "utf-7":
        body = body.replace(b'"name"', b"+ACI-name+ACI-")
    assert target.reasons(body)[2] == "parse_error"


@rows(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", bytes), ("GZIP", bytes)])
def test_a_compressed_body(target, name, pack):
    assert target.reasons(pack(BODY.encode()), {"content-encoding": name})[::2] == (415, "unsupported_media_type")


@rows(
    "kind",
    [
        "application/json; charset=utf-16",
        'application/json; charset="utf-7"',
        "application/json; charset=utf-8; charset=utf-16",
        "application/json; Charset=UTF-16LE",
        "application/json;charset=iso-8859-1",
        "application/json, text/plain",
        "application/jsonx",
        "application/vnd.api+json",
        "",
    ],
)
def test_a_charset_or_type_that_another_reader_would_follow(target, kind):
    assert target.reasons(BODY.encode(), {"content-type": kind})[::2] == (415, "unsupported_media_type")


@rows("body", [b"\xff\xfe", b"\x00" + BODY.encode(), BODY.encode() + b"\x00", BODY.encode() * 2, b"", b" "])
def test_bytes_around_the_message(target, body):
    assert target.reasons(body)[2] == "parse_error"


def test_overlong_utf_8(target):
    """0xC0 0xAE is no dot, but some readers took it for one."""
    assert target.reasons(BODY.encode().replace(b"rm", b"\xc0\xae"))[2] == "parse_error"
