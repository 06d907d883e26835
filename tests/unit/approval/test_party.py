import hashlib

import pytest

from callgate.approval.model import RelyingParty
from callgate.errors import ConfigError
from support.table import rows

EXACT = RelyingParty("gate.example", origins=("https://gate.example",))
ANY_PORT = RelyingParty("localhost", origins=("http://localhost:*",))


@rows(
    ("party", "origin", "taken"),
    [
        (EXACT, "https://gate.example", True),
        (EXACT, "http://gate.example", False),
        (EXACT, "https://gate.example:443", False),
        (EXACT, "https://gate.example.evil.example", False),
        (EXACT, "https://GATE.example", False),
        (EXACT, "", False),
        (EXACT, "null", False),
        (ANY_PORT, "http://localhost", True),
        (ANY_PORT, "http://localhost:1", True),
        (ANY_PORT, "http://localhost:65535", True),
        (ANY_PORT, "https://localhost:1", False),
        (ANY_PORT, "http://localhost:", False),
        (ANY_PORT, "http://localhost:*", False),
        (ANY_PORT, "http://localhost:80x", False),
        (ANY_PORT, "http://localhost:1\n", False),
        (ANY_PORT, "http://localhost:١", False),
        (ANY_PORT, "http://localhost:123456", False),
        (ANY_PORT, "http://localhost.evil.example", False),
        (ANY_PORT, "http://127.0.0.1:1", False),
    ],
)
def test_which_pages_may_sign(party, origin, taken):
    assert party.takes(origin) is taken


def test_no_page_holds_ours_unless_listed():
    assert not EXACT.takes_around("https://gate.example")
    assert not EXACT.takes_around(None)
    framed = RelyingParty("gate.example", origins=("https://gate.example",), top_origins=("https://desk.example",))
    assert framed.takes_around("https://desk.example")
    assert not framed.takes_around("https://gate.example")


def test_authenticators_hash_the_id():
    assert EXACT.hash == hashlib.sha256(b"gate.example").digest()


@rows(("party_id", "origins"), [("", ("https://a",)), ("a", ())])
def test_a_party_without_id_or_pages_is_a_mistake(party_id, origins):
    with pytest.raises(ConfigError):
        RelyingParty(party_id, origins=origins)
