"""The attacker sends the headers of a signature in other letters, over several lines, or under almost their names."""

import hashlib
import json
import socket
from base64 import b64encode

import pytest

from support.agents_crafted import crafted, jwk
from support.agents_gate import PLAIN, call, reason, site
from support.raw import JSON_HEADERS
from support.registry import requirement
from support.table import rows

PLACE = '"@method" "@authority" "@path"'


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    section = {"mode": "required", "known": {"by": {"jwk": jwk()}}, "signatures": {"discovery": "ignore"}}
    with site(tmp_path_factory.mktemp("recased"), agents=section) as running:
        yield running


def sent(running, lines, body=PLAIN):
    """Status and reason of a request with these header lines, byte by byte; and what reached the server."""
    before = len(running.got())
    usual = {"Host": f"127.0.0.1:{running.gateway.port}", **JSON_HEADERS, "Content-Length": str(len(body))}
    head = [f"{name}: {value}".encode() for name, value in (usual | {"Connection": "close"}).items()]
    with socket.create_connection(("127.0.0.1", running.gateway.port), 20) as connection:
        connection.sendall(b"\r\n".join([b"POST /servers/one/mcp HTTP/1.1", *head, *lines, b"", body]))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    top, _, text = answer.partition(b"\r\n\r\n")
    status = int(top.split(b" ", 2)[1])
    try:
        told = json.loads(text).get("error", {}).get("data", {}).get("reason", "")
    except ValueError:
        told = ""
    return status, told, running.got()[before:]


def lines(headers):
    return [f"{name}: {value}".encode() for name, value in headers.items()]


@rows("spell", [str.upper, str.title, str.swapcase], ids=["upper", "title", "swapped"])
def test_names_of_headers_in_other_letters_are_the_same_headers(gate, spell):
    headers = {spell(name): value for name, value in crafted(gate).items()}
    status, told, got = sent(gate, lines(headers))
    assert (status, told, len(got)) == (200, "", 1)
    # They are spent here, in whatever letters they came.
    assert not [name for name, _ in got[0].headers if b"signature" in name.lower()]


@requirement("WB-071")
@rows("old", ['"@authority"', 'tag="web-bot-auth"', "sig1="])
def test_the_value_in_other_letters_is_another_value(gate, old):
    headers = crafted(gate)
    headers["signature-input"] = headers["signature-input"].replace(old, old.upper())
    status, told, got = sent(gate, lines(headers))
    assert status in (400, 401)
    assert told
    assert got == []


@rows("name", ["signature-input", "signature"])
@rows("fold", [b"\r\n ", b"\r\n\t", b"\n "])
def test_a_header_that_goes_on_in_the_next_line(gate, name, fold):
    """RFC 9112 §5.2: a server may refuse it; two readers must not see two headers."""
    headers = crafted(gate)
    folded = headers[name].encode()
    folded = folded[:10] + fold + folded[10:]
    rest = {key: value for key, value in headers.items() if key != name}
    assert sent(gate, [*lines(rest), name.encode() + b": " + folded]) == (400, "invalid_request", [])


@requirement("WB-057")
@rows(
    ("name", "refused"),
    [
        (b"signature_input", (401, "missing_signature_headers")),
        (b"x-signature-input", (401, "missing_signature_headers")),
        (b"signature-input ", (400, "invalid_request")),
        (b" signature-input", (400, "invalid_request")),
    ],
)
def test_almost_the_name(gate, name, refused):
    headers = crafted(gate)
    text = headers.pop("signature-input").encode()
    assert sent(gate, [name + b": " + text, *lines(headers)]) == (*refused, [])


@requirement("WB-058")
def test_one_dictionary_over_two_lines_is_one_dictionary(gate):
    """RFC 9421 §4: lines of one name are joined, so that a second line adds labels, and replaces none."""
    one, two = crafted(gate, label="a"), crafted(gate, label="b", which=7)
    both = [line for headers in (one, two) for line in lines(headers)]
    assert sent(gate, both)[:2] == (200, "")
    again, other = crafted(gate), crafted(gate)
    status, told, got = sent(gate, [*lines(again), f"signature-input: {other['signature-input']}".encode()])
    assert (status, told, got) == (400, "signature_input_malformed", [])


def test_space_around_a_covered_value_changes_nothing_and_space_within_does(gate):
    headers = crafted(gate, covered=f'{PLACE} "x-order"', headers={"X-Order": "a b"})
    signed = lines({name: value for name, value in headers.items() if name != "X-Order"})
    assert sent(gate, [*signed, b"X-Order:a  b"])[:2] == (401, "signature_invalid")
    assert sent(gate, [*signed, b"X-Order: a b", b"X-Order: a b"])[:2] == (401, "signature_invalid")
    assert sent(gate, [*signed, b"X-Order: A b"])[:2] == (401, "signature_invalid")
    assert sent(gate, [*signed, b"x-ORDER:   a b  "])[:2] == (200, "")


def digest(body):
    return f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"


@requirement("WB-029", "WB-094")
def test_a_body_swapped_with_its_digest_where_the_digest_is_not_covered(gate):
    """Without rules for tools a signature may leave the body out; then nobody is told that it was signed."""
    headers = crafted(gate, call("search"), headers={"Content-Digest": digest(call("search"))})
    swapped = call("checkout")
    assert sent(gate, lines(headers), swapped)[:2] == (401, "content_digest_mismatch")
    headers |= {"Content-Digest": digest(swapped)}
    claims = [b"Callgate-Body-Verified: true", b"CALLGATE-AGENT: root", b"callgate_agent: root"]
    status, _, got = sent(gate, [*lines(headers), *claims], swapped)
    assert status == 200
    assert got[0].header("callgate-body-verified") == [b"false"]
    assert got[0].header("callgate-agent") == [b"by"]
    assert b"root" not in repr(got[0].headers).encode()


def test_the_gate_still_works(gate):
    assert reason(gate.send(None, headers=crafted(gate))) == (200, "")
