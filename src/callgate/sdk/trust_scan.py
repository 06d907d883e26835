"""Looking through texts for what tries to steer a model, by the rules that inspect tool descriptions, and for secrets.

A detector takes the texts of a result and gives one sentence for each thing it found. Authors may give others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, TypeAlias

from callgate.errors import place
from callgate.pinning.inspection import NOBODY_ELSE, Inspected, Rule, all_rules
from callgate.pinning.inspection.reading import Reading

log = logging.getLogger("callgate.trust")

Detector: TypeAlias = Callable[[Sequence[str]], Iterable[str]]

# Of a text; of a longer one the head and the tail are read.
WHOLE: Final = 64 * 1024
BROKEN: Final = "A detector failed on this text, so it was not looked at."
_WARNINGS: Final = 16
_CHARS: Final = 300
_SENTENCES: Final = {
    "instructions": "It tells the model to set aside its instructions or to follow others.",
    "authority": "It claims an authority over the model.",
    "secrecy": "It wants something kept from the person.",
    "exfiltration": "It asks for secrets or for the conversation to be sent somewhere.",
    "secrets": "It asks for secrets or for the conversation to be sent somewhere.",
    "unicode": "It holds text that a person cannot see and a model reads.",
}
# Of the rules for descriptions, those that honest prose seldom breaks.
_RULES: Final = frozenset(
    {
        "instructions.override",
        "instructions.new-orders",
        "authority.claimed",
        "secrecy.from-user",
        "exfiltration.conversation",
        "exfiltration.secrets",
        "secrets.key-file",
        "unicode.tag-block",
        "unicode.variation-selectors",
    }
)
# Forms that are given out by those who make such keys, and hardly mean anything else.
_SECRET: Final = re.compile(
    r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{60,255}\b|\bglpat-[A-Za-z0-9_-]{20,64}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{20,255}|\bsk-[A-Za-z0-9_-]{32,255}|\bsk_live_[A-Za-z0-9]{20,255}"
    r"|\bAIza[A-Za-z0-9_-]{35}\b|\bnpm_[A-Za-z0-9]{36}\b"
)
_SAMPLE: Final = ("example", "xxxxxx", "0000000", "placeholder")


@cache
def _rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in all_rules() if rule.id in _RULES)


def steering(texts: Sequence[str]) -> tuple[str, ...]:
    """Orders to a model."""
    # Read together: what is split over two items reads as one to a model.
    text = "\n\n".join(texts)
    if len(text) > WHOLE:
        text = f"{text[: WHOLE // 2]}\n{text[-WHOLE // 2 :]}"
    if not text.strip():
        return ()
    # Rules leave a text's first word alone: in a description it says what the tool does.
    reading = Reading(Inspected(rest={"result": f"Result. {text}"}), NOBODY_ELSE)
    found = [rule.id.partition(".")[0] for rule in _rules() if next(iter(rule.check(reading)), None) is not None]
    return tuple(dict.fromkeys(_SENTENCES[family] for family in found))


def leaked(texts: Sequence[str]) -> tuple[str, ...]:
    """Keys and access tokens, where a result has no business with them."""
    found: dict[str, None] = {}
    for text in texts:
        for secret in _SECRET.finditer(text):
            if not any(word in secret[0].lower() for word in _SAMPLE):
                found["It holds a private key." if secret[0].startswith("-") else "It holds an access token."] = None
    return tuple(found)


DETECTORS: Final[tuple[Detector, ...]] = (steering, leaked)


def scan(detectors: Iterable[Detector], texts: Sequence[str]) -> tuple[str, ...]:
    """What all of them found, bounded. One that breaks has not cleared the text."""
    found: dict[str, None] = {}
    for detector in detectors:
        try:
            found |= dict.fromkeys(str(one)[:_CHARS] for one in detector(texts))
        except Exception as error:  # noqa: BLE001 - the text is a stranger's: whatever it breaks is told
            log.error("a detector failed: %s", place(error))
            found[BROKEN] = None
    return tuple(found)[:_WARNINGS]
