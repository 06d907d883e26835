"""Published examples: RFC 9421 appendix B.2, those of the Web Bot Auth drafts, and thumbprints of RFC 7638 and RFC 8037."""

import json
from pathlib import Path

import pytest

from callgate.agents.keys import PublicKey, thumbprint
from callgate.agents.model import Signed
from callgate.agents.verifying import (
    PUBLISHED,
    SignedMessage,
    SignedResponse,
    advertised,
    check_digest,
    inputs,
    signature_base,
    signatures,
)
from callgate.errors import Reason, Refused
from support.registry import requirement
from support.signed_requests import Found, verify
from support.table import rows

DATA = Path(__file__).resolve().parents[2] / "data" / "web-bot-auth"
RFC = json.loads((DATA / "rfc9421.json").read_text())
KEYS = {name: PublicKey.read(jwk) for name, jwk in RFC["keys"].items()}
DRAFTS = [
    pytest.param(row, id=f"{version}-{row['label']}-{row['key']['kty']}")
    for version in ("v1", "v2")
    for row in json.loads((DATA / f"web_bot_auth_architecture_{version}.json").read_text())
]


def _headers(pairs):
    return tuple((name.lower().encode(), value.encode()) for name, value in pairs)


def _message(of):
    asked = RFC["request"]
    request = Signed(
        asked["method"],
        asked["scheme"],
        asked["authority"],
        asked["path"],
        asked["query"],
        _headers(asked["headers"]),
        asked["body"].encode(),
    )
    if of == "request":
        return SignedMessage(request)
    given = RFC["response"]
    return SignedMessage(SignedResponse(given["status"], _headers(given["headers"]), request, given["body"].encode()))


@rows("example", RFC["examples"], ids=lambda example: example["section"])
@requirement("WB-001", "WB-013", "WB-014")
def test_the_examples_of_rfc_9421_verify(example):
    ((label, given),) = inputs(example["input"].encode()).items()
    signature = signatures(example["signature"].encode())[label]
    key = KEYS[given.params["keyid"]]
    message = _message(example["of"])
    base = signature_base(given, message)
    assert key.verifies(example["algorithm"], signature, base)
    assert not key.verifies(example["algorithm"], signature, base + b" ")
    check_digest(message.header(b"content-digest"), message.body)


def test_the_base_of_an_example_is_the_one_that_is_printed():
    given = inputs(RFC["examples"][1]["input"].encode())["sig-b22"]
    assert signature_base(given, _message("request")).decode().split("\n") == [
        '"@authority": example.com',
        f'"content-digest": {dict(RFC["request"]["headers"])["Content-Digest"]}',
        '"@query-param";name="Pet": dog',
        (
            '"@signature-params": ("@authority" "content-digest" "@query-param";name="Pet")'
            ';created=1618884473;keyid="test-key-rsa-pss";tag="header-example"'
        ),
    ]


def _of_the_draft(row):
    headers = [("signature-input", row["signature_input"]), ("signature", row["signature"])]
    if "signature_agent" in row:
        headers.append(("signature-agent", row["signature_agent"]))
    return Signed("GET", "https", "example.com", "/path/to/resource", None, _headers(headers))


def _public(jwk):
    return {name: value for name, value in jwk.items() if name not in {"d", "p", "q", "dp", "dq", "qi"}}


@rows("row", DRAFTS)
@requirement("WB-002", "WB-004", "WB-008", "WB-009", "WB-013", "WB-014")
async def test_the_vectors_of_the_drafts_verify(row):
    created, expires = row["created_ms"] // 1000, row["expires_ms"] // 1000
    found = Found(PublicKey.read(_public(row["key"])))
    got = await verify(
        _of_the_draft(row), lookup=found, now=created, max_window=expires - created, allow_test_keys=True
    )
    assert (got.label, got.nonce, got.created, got.expires) == (row["label"], row["nonce"], created, expires)
    assert got.keyid == thumbprint(row["key"])
    assert found.asked == [(got.keyid, "https://signature-agent.test" if "signature_agent" in row else None)]
    assert got.digest_verified is False


@rows("row", DRAFTS)
async def test_one_changed_byte_is_noticed(row):
    changed = json.loads(json.dumps(row).replace("signature-agent.test", "signature-agent.tesT"))
    signed = _of_the_draft(changed)
    if "signature_agent" not in row:
        signed = Signed("GET", "https", "example.org", "/path/to/resource", None, signed.headers)
    with pytest.raises(Refused) as caught:
        await verify(
            signed,
            keys=[PublicKey.read(_public(row["key"]))],
            now=row["created_ms"] // 1000,
            max_window=10**10,
            allow_test_keys=True,
        )
    assert caught.value.reason is Reason.SIGNATURE_INVALID


@rows(
    "row",
    json.loads((DATA / "web_bot_auth_signature_agent_v1.json").read_text()),
    ids=lambda row: row["name"],
)
@requirement("WB-008")
def test_signature_agent_is_read_as_published(row):
    read = [{"label": one.label, "uri": one.uri, "type": one.type} for one in advertised(row["header"].encode())]
    assert read == row["entries"]


@requirement("WB-004")
def test_thumbprints_are_those_of_the_rfcs():
    rfc7638 = {
        "kty": "RSA",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n"
        "3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHz"
        "u6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8aw"
        "apJzKnqDKgw",
        "e": "AQAB",
        "alg": "RS256",
        "kid": "2011-04-29",
    }
    assert thumbprint(rfc7638) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    rfc8037 = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert thumbprint(rfc8037) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert {thumbprint(rfc7638), thumbprint(rfc8037)} | {key.thumbprint for key in KEYS.values()} == PUBLISHED
