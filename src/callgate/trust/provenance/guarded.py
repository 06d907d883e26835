"""Card numbers, accounts and passwords in a text, known by what they are: nobody has to label the result they stand in.

Each has to hold up to its own check (Luhn and issuer, ISO 13616's modulo 97), so that an order number is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import AnyStr, Final

# How they begin, in a text of which only the shape is left: a search for that is much faster.
_SHAPE: Final = bytes(
    48 if 48 <= code <= 57 else 97 if chr(code).isalpha() and code < 128 else 32 for code in range(256)
)
_CARDS: Final = (b"0" * 14, b"0000 0000 0000", b"0000 000000 0000")
_ACCOUNTS: Final = (b" aa00",)
# Each of these has two digits together.
_DIGITS: Final = b"00"
_CARD: Final = re.compile(r"(?<![\w.,/-])\d(?:[ -]?\d){13,18}(?![\w/-]|[.,]\d)|(?<=[=/])\d{14,19}(?![\w/-]|[.,]\d)")
_IBAN: Final = re.compile(r"[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?(?![A-Za-z0-9])")
# A card number has 14 digits, `pwd:` and a password ten signs; what is shorter holds none.
_SHORTEST_NUMBER: Final = 14
_SHORTEST_PASSWORD: Final = 10
# Places of one kind in one text that are looked at.
_PLACES: Final = 4_096
# Issuers by how their numbers begin, and how many digits those have.
_ISSUERS: Final = (
    (re.compile(r"4"), (16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"3(?:0[0-5]|[689])"), (14, 16)),
    (re.compile(r"35(?:2[89]|[3-8])"), (16,)),
    (re.compile(r"6(?:011|4[4-9]|5)"), (16, 19)),
    (re.compile(r"62"), (16, 17, 18, 19)),
)
_PASSWORDS: Final = ("passw", "passphrase", "passcode", "kennwort", "contraseña", "mot de passe", "pwd")
_ASSIGNED: Final = re.compile(
    r"(?:pass(?:word|wort|wd|phrase|code)|kennwort|contraseña|mot de passe|pwd)"
    r"[\"']?(?: is| ist| es| est)?\s{0,3}[:=]\s{0,3}[\"'`]?(?P<value>[^\s\"'`<>{}\[\](),;]{6,80})",
    re.IGNORECASE,
)
_STANDS_FOR_ONE: Final = re.compile(r"\$|%\w|\*\*|xxx|\.\.\.|your|example|://", re.IGNORECASE)


def numbers(text: str) -> set[str]:
    """The card numbers and accounts in a text, each in its one spelling."""
    if len(text) < _SHORTEST_NUMBER:
        return set()
    shape = b" " + text.encode("ascii", "replace").translate(_SHAPE)
    if _DIGITS not in shape:
        return set()
    matched = (_CARD.match(text, at - 1) for at in _places(shape, _CARDS))
    cards = (re.sub("[ -]", "", card[0]) for card in matched if card is not None)
    found = {card for card in cards if _is_card(card)}
    for at in _places(shape, _ACCOUNTS):
        found |= _account(text, at)
    return found


def passwords(text: str) -> set[str]:
    """What stands behind `password:` and the like, and cannot be a word."""
    if len(text) < _SHORTEST_PASSWORD or (":" not in text and "=" not in text):
        return set()
    plain = text.lower()
    if len(plain) != len(text):
        plain = "".join([char.lower() if char.isascii() else char for char in text])
    assigned = (_ASSIGNED.match(text, at) for at in _places(plain, _PASSWORDS))
    return {found["value"] for found in assigned if found is not None and _is_password(found["value"])}


def _places(text: AnyStr, needles: tuple[AnyStr, ...]) -> Iterator[int]:
    left = _PLACES
    for needle in needles:
        at = text.find(needle)
        while at >= 0 and left > 0:
            yield at
            left -= 1
            at = text.find(needle, at + len(needle))


def _account(text: str, at: int) -> set[str]:
    found = _IBAN.match(text, at)
    parts = found[0].split(" ") if found is not None else []
    # Short words behind the last group may have been taken for groups.
    ends = ("".join(parts[:end]).lower() for end in range(len(parts), 0, -1))
    return {account for account in ends if _is_account(account)}


def _is_card(digits: str) -> bool:
    if len(set(digits)) < 3 or not any(len(digits) in lengths for start, lengths in _ISSUERS if start.match(digits)):
        return False
    # ISO/IEC 7812-1, Annex B: each second digit from the right is doubled.
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0


def _is_account(account: str) -> bool:
    if not 15 <= len(account) <= 34:
        return False
    moved = account[4:] + account[:4]
    return int("".join(str(int(sign, 36)) for sign in moved)) % 97 == 1


def _is_password(value: str) -> bool:
    core = value.rstrip(".!?")
    marks = any(not sign.isalnum() for sign in core)
    mixed = any(map(str.isdigit, core)) and any(map(str.isalpha, core))
    return len(core) >= 6 and (mixed or marks) and any(map(str.isalpha, core)) and not _STANDS_FOR_ONE.search(value)
