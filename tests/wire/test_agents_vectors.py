"""Published vectors of Web Bot Auth, sent to an app behind the middleware: the drafts' pass, the negative ones do not."""

import http.client
import json
from pathlib import Path

import pytest

from callgate.agents.keys import PublicKey
from callgate.sdk.web_bot_auth import Authenticator, Sources, VerifyOptions, WebBotAuthMiddleware
from support.registry import requirement
from support.signed_site import application, serving
from support.table import rows

DATA = Path(__file__).resolve().parents[1] / "data" / "web-bot-auth"
NEGATIVE = json.loads((DATA / "negative_vectors.json").read_text())
DRAFT = json.loads((DATA / "web_bot_auth_architecture_v2.json").read_text())
# What the authors call it, and what it is here.
REASONS = {
    "target-not-covered": (400, "missing_required_covered_field"),
    "missing-fields": (400, "missing_required_param"),
    "expired": (401, "signature_expired"),
    "clock-ahead": (401, "created_in_future"),
    "bad-signature": (401, "signature_invalid"),
    "canonicalization-mismatch": (401, "signature_invalid"),
    "content-digest-mismatch": (401, "content_digest_mismatch"),
    "missing-component": (400, "unsupported_covered_field"),
    "signature-input-unreadable": (400, "signature_input_malformed"),
    "signature-value-unreadable": (400, "signature_malformed"),
    "signature-agent-absent": (401, "unknown_keyid"),
    "signature-agent-ambiguous-member": (400, "missing_required_covered_field"),
    "signature-agent-member-missing": (400, "unsupported_covered_field"),
    "signature-agent-not-https": (400, "signature_input_malformed"),
    "signature-agent-not-origin": (401, "unknown_keyid"),
    "signature-agent-unparsable": (400, "signature_input_malformed"),
    "duplicate-component": (400, "signature_input_malformed"),
}
# Nobody could look a key up; everything else about these signatures is invalid.
UNVERIFIED = {"unknown_keyid"}


class Site:
    """An app known as https://example.com, whose clock a vector sets; the key is that of the directory that is named."""

    def __init__(self):
        self.now = 0
        self.reached = 0
        public = {name: NEGATIVE["key"][name] for name in ("kty", "crv", "x")}
        sources = Sources(self_origin="https://signature-agent.test", self_jwks={"keys": [public]})
        # The vectors are valid for a century, carry no nonce, and their private key is printed in RFC 9421.
        options = VerifyOptions(
            sources=sources, max_window_seconds=10**10, allow_test_keys=True, now=lambda: float(self.now)
        )
        self._app = application()
        self.app = WebBotAuthMiddleware(self._behind, Authenticator(verify=options), origins="https://example.com")

    async def _behind(self, scope, receive, send):
        self.reached += 1
        await self._app(scope, receive, send)

    def send(self, method, path, headers, body=b""):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body, {**headers, "Host": "example.com"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found["error"]["data"]["reason"] if "error" in found else ""


@pytest.fixture(scope="module")
def site():
    made = Site()
    with serving(made.app) as origin:
        made.port = int(origin.rpartition(":")[2])
        yield made


@rows("row", [row for row in DRAFT if row["key"]["kty"] == "OKP"], ids=lambda row: row["label"])
@requirement("WB-001", "WB-008")
def test_the_vectors_of_the_draft_pass(site, row):
    headers = {"Signature-Input": row["signature_input"], "Signature": row["signature"]}
    if "signature_agent" in row:
        headers["Signature-Agent"] = row["signature_agent"]
    site.now = row["created_ms"] // 1000
    before = site.reached
    named = "signature_agent" in row
    assert site.send("GET", "/path/to/resource", headers) == ((200, "") if named else (401, "unknown_keyid"))
    assert site.reached == before + named


@rows("vector", NEGATIVE["tests"], ids=lambda vector: vector["id"])
@requirement("WB-001", "WB-008", "WB-059", "WB-064", "WB-065", "WB-069")
def test_negative_vectors_come_to_what_their_authors_expect(site, vector):
    asked, expected = vector["request"], vector["expected"]
    assert PublicKey.read(NEGATIVE["key"]).thumbprint in str(vector)
    site.now, before = vector["now"], site.reached
    told = site.send(asked["method"], "/", asked["headers"], asked.get("body", "").encode())
    assert told == REASONS[expected["reason"]]
    assert ("unverified" if told[1] in UNVERIFIED else "invalid") == expected["outcome"]
    assert site.reached == before


def test_there_are_17_negative_vectors_each_of_its_own_kind():
    assert sorted(one["expected"]["reason"] for one in NEGATIVE["tests"]) == sorted(REASONS)
    assert len(REASONS) == 17
