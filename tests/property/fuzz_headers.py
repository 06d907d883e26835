"""Coverage-guided fuzzing of everything that reads a signed request's headers: `python fuzz_headers.py -runs=N`.

Ends with a traceback, and a status other than 0, where a reader breaks or a message that was changed is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

with atheris.instrument_imports(include=["callgate.agents", "http_sf"]):
    from callgate.agents.keys import PublicKey
    from callgate.agents.signing import Signer
    from callgate.agents.verifying import advertised, check_digest, coverage, inputs, line, signatures
    from callgate.errors import Refused
    from support.signed_requests import AGENT, NOW, adding, change, private, request, verify

_LOOP = asyncio.new_event_loop()
_SIGNER = Signer(private(), AGENT, clock=lambda: NOW)
SIGNED = adding(request(), _SIGNER.sign(request(), nonce="n", covered=["@method", "@target-uri", "host"]))
KEY = PublicKey.read(_SIGNER.jwk, AGENT)
COVERED = (b"signature-input", b"signature", b"signature-agent", b"content-digest", b"host")
READERS = (
    inputs,
    signatures,
    advertised,
    lambda raw: check_digest(raw, b""),
    lambda raw: [coverage(one.listed) for one in inputs(raw).values() if one is not None],
)


def accepted(headers: tuple[tuple[bytes, bytes], ...]) -> bool:
    try:
        _LOOP.run_until_complete(verify(change(SIGNED, headers=headers), keys=[KEY]))
    except Refused:
        return False
    return True


def try_one(data: bytes) -> None:
    """The first byte says what becomes of the rest."""
    given = atheris.FuzzedDataProvider(data)
    which = given.ConsumeIntInRange(0, len(READERS) + len(COVERED) - 1)
    raw = given.ConsumeBytes(given.remaining_bytes())
    if which < len(READERS):
        with contextlib.suppress(Refused):
            READERS[which](raw)
        return
    name = COVERED[which - len(READERS)]
    # Beside a signature that holds, others may come and go; what says the same is the same.
    if same(name, raw):
        return
    headers = tuple((one, raw if one == name else value) for one, value in SIGNED.headers)
    if accepted(headers):
        raise AssertionError(f"accepted with {name!r}: {raw!r}")


def same(name: bytes, raw: bytes) -> bool:
    held = dict(SIGNED.headers)[name]
    if line(raw) == held:
        return True
    if name in {b"host", b"content-digest"}:
        return False
    return b"sig1" in raw and raw.strip().find(held) >= 0


def main() -> None:
    if not accepted(SIGNED.headers):
        raise AssertionError("the message that is changed below is no good one")
    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
