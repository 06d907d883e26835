"""A phishing page has the person sign the server's own challenge."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@rows(
    "bend",
    [
        {"origin": origin}
        for origin in (
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:80@evil.example",
            "https://localhost",
            "http://localhost:8000/path",
            "http://127.0.0.1",
            "http://LOCALHOST",
            "http://localhost:*",
            "null",
            "",
        )
    ],
)
@requirement("VA-117", "VA-128", "VA-074")
def test_it_is_no_approval(library, era, bend):
    alice = library.join(f"origin-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    before = len(library.executed)
    answer = alice.call("delete_resource", A, alice.signs(challenge, **bend))
    assert refusal(answer) == (-32001, "signature_verification_failed")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"
