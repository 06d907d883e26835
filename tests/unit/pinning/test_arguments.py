"""Arguments that look as if a secret went along, and how little is said of it."""

import json

from callgate.pinning.judging import odd
from support.registry import requirement
from support.table import rows

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "an AWS access key": "AKIA" + "Q3EGRZ7XKJ5TLM2P",
    "a GitHub token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "a Slack token": "xoxb-" + "123456789012-abcdefABCDEF",
    "a Google key": "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "a Stripe key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "an API key of a model provider": "sk-" + "proj-" + "abcdEFGH1234abcdEFGH1234abcdEFGH1234",
    "a JSON Web Token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE",
    "a GitLab token": "glpat-" + "abcDEF123456ghiJKL78",
}


def said(arguments):
    return odd(json.dumps(arguments, separators=(",", ":"), ensure_ascii=False).encode())


@requirement("TP-042")
@rows("kind", SECRETS)
@rows("place", ["alone", "inside", "nested"])
def test_a_secret_is_noticed_and_not_repeated(kind, place):
    secret = SECRETS[kind]
    arguments = {
        "alone": {"note": secret},
        "inside": {"note": f"my config is\nKEY={secret}\nand so on"},
        "nested": {"a": [{"b": {"c": f"x {secret} y"}}]},
    }[place]
    found = said(arguments)
    assert f"looks like {kind}" in found
    assert secret not in repr(found)
    assert secret[8:16] not in repr(found)


@requirement("TP-042")
@rows(
    "text",
    [
        "api_key=9fA2c7Qe81LmZ0xT4vB6",
        'password: "hT7kQ2zP9xW4mB6c"',
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
        "Authorization: Bearer 8xKq2LmZ0xT4vB6Qe81L",
    ],
)
def test_a_value_after_the_name_of_a_secret_is_noticed(text):
    assert said({"note": text}) == ("looks like a secret under its name",)
    name, _, value = text.partition("=") if "=" in text else text.partition(": ")
    assert said({name: value}) == ("looks like a secret under its name",)


@rows(
    "arguments",
    [
        {},
        {"path": "/home/ann/projects/keyboard-layout/token_parser.py", "limit": 20},
        {"query": "how do I rotate an api key and a secret token?"},
        {"text": "The password must have at least sixteen characters and a number."},
        {"pageToken": "next", "key": "summary", "token_count": 1234567890123456789},
        {"max_tokens": 4096, "secret_santa": "everybody-in-the-office"},
        {"sha": "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"id": "0b2d9f4e-7c1a-4b53-9c64-2f1d7a8e5b90"},
        {"task": "ask-me-anything about task-management-and-other-things-we-need"},
        {"code": "def token(key: str) -> Secret:\n    return key.authorization_header_value"},
    ],
)
def test_ordinary_arguments_are_left_alone(arguments):
    assert said(arguments) == ()


@requirement("TP-042")
def test_unusual_size_is_noticed():
    assert odd(b'{"a":"' + b"x" * 70_000 + b'"}') == ("is unusually large: 70008 bytes",)
    assert odd(b'{"a":"' + b"x" * 5_000 + b'"}', usual=100) == ("is unusually large: 5008 bytes",)
    assert odd(b'{"a":"' + b"x" * 3_000 + b'"}', usual=100) == ()


def test_of_very_much_the_beginning_and_the_end_are_looked_at():
    secret = SECRETS["an AWS access key"].encode()
    filler = b"x " * 200_000
    assert len(odd(secret + filler)) == len(odd(filler + secret)) == 2
    assert len(odd(filler + secret + filler)) == 1


def test_nothing_makes_it_slow_or_fail():
    for part in (b"eyJ", b"sk-", b"-----BEGIN ", b"token=", b"AKIA", b"\xff\xfe", b"key key key:", b'"', b"\\"):
        odd(part * (131_072 // len(part)))
    odd(b"token " + b" " * 131_000)
    odd(b"")
