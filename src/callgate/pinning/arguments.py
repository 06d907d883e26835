"""Arguments that look as if something left the agent that should not have: keys, tokens, or unusually much of it.

A sample for alerts, not a check: it never refuses, and it never repeats what it found.
"""

from __future__ import annotations

import re
from typing import Final

# Looked at: the beginning and the end of what may be megabytes.
_WINDOW: Final = 65_536
# Arguments larger than this are worth a word, whatever is usual.
_LARGE: Final = 65_536

_SHAPES: Final = {
    "aws": (rb"(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}(?![A-Z0-9])", "an AWS access key"),
    "github": (rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50}", "a GitHub token"),
    "gitlab": (rb"glpat-[A-Za-z0-9_-]{20}", "a GitLab token"),
    "slack": (rb"xox[abeoprs]-[A-Za-z0-9-]{16}|hooks\.slack\.com/services/T[A-Z0-9/]{16}", "a Slack token"),
    "google": (rb"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30}", "a Google key"),
    "stripe": (rb"[rs]k_(?:live|test)_[A-Za-z0-9]{16}", "a Stripe key"),
    "model": (rb"sk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{32}", "an API key of a model provider"),
    "npm": (rb"npm_[A-Za-z0-9]{36}|pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20}", "a package registry's token"),
    "hf": (rb"hf_[A-Za-z0-9]{30}", "a Hugging Face token"),
    "jwt": (rb"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}", "a JSON Web Token"),
    "pem": (rb"-----BEGIN (?:[A-Z]{2,10} ){0,3}PRIVATE KEY-----", "a private key"),
}
# `key=`, `"token": "`, `password: `: a value of some length after the name of a secret.
_NAMED: Final = re.compile(
    rb"(?i)(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|credential|authorization|bearer)"
    rb"[A-Za-z0-9_-]{0,20}\\?[\"']?\s{0,3}[:= ]\s{0,3}\\?[\"']?(?:bearer\s)?([A-Za-z0-9+/_.=~-]{16,512})"
)
_SHAPED: Final = re.compile(b"|".join(b"(?P<%s>%s)" % (name.encode(), shape) for name, (shape, _) in _SHAPES.items()))
# Every shape above begins with one of these: most arguments have none, and are done with.
_MARKS: Final = re.compile(
    rb"AKIA|ASIA|AGPA|AIDA|AROA|gh[pousr]_|github_pat_|glpat-|xox|hooks\.slack|AIza|ya29\.|k_(?:live|test)_|sk-|npm_|"
    rb"pypi-|hf_|eyJ|-----BEGIN "
)
_NAMES: Final = re.compile(rb"(?i)key|secret|token|passw|passphrase|credential|authorization|bearer")
_MOST: Final = 8


def odd(canonical: bytes, usual: int | None = None) -> tuple[str, ...]:
    """What is unusual about a call's arguments, in words: kinds of secrets, and size.

    `usual` is how many bytes they mostly have, where that is known.
    """
    found: list[str] = []
    for window in _windows(canonical):
        if _MARKS.search(window):
            for match in _SHAPED.finditer(window):
                kind = match.lastgroup
                if kind is not None and (text := f"looks like {_SHAPES[kind][1]}") not in found:
                    found.append(text)
        if _NAMES.search(window) and any(_is_random(match[1]) for match in _NAMED.finditer(window)):
            text = "looks like a secret under its name"
            if text not in found:
                found.append(text)
    if len(canonical) > (_LARGE if usual is None else max(4_096, 10 * usual)):
        found.append(f"is unusually large: {len(canonical)} bytes")
    return tuple(found[:_MOST])


def _windows(data: bytes) -> tuple[bytes, ...]:
    if len(data) <= 2 * _WINDOW:
        return (data,)
    return data[:_WINDOW], data[-_WINDOW:]


def _is_random(value: bytes) -> bool:
    """Letters and digits mixed as no word or path is: most of them different, and of several kinds."""
    text = value.decode("ascii", "replace")
    kinds = (any(c.isdigit() for c in text), any(c.islower() for c in text), any(c.isupper() for c in text))
    if sum(kinds) < 2 or not kinds[0]:
        return False
    return len(set(text)) >= min(12, len(text) * 6 // 10)
