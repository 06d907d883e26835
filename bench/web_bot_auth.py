"""What it costs to know who signed a request: beside the bare signature, and beside another library.

Everything is in it: headers read, signature base built, key looked up, signature verified, nonce taken (in memory); in
one row the digest of the body as well. Every request has a nonce and a signature of its own. Run alone it prints the
figures: `python bench/web_bot_auth.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageVerifier, algorithms
from http_message_signatures.resolvers import MappingKeyResolver

from callgate.agents.keys import PublicKey
from callgate.agents.model import Signed
from callgate.agents.signing import Signer
from callgate.agents.verifying import SignedMessage, Verifier, VerifySettings, inputs, signature_base, signatures
from callgate.store.memory import MemoryAgents

# The other library looks at the clock itself.
AGENT: Final = "https://agent.example"
BODY: Final = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"text": "x" * 400}}}
).encode()
# What an agent covers if it wants its request used for nothing else; and what the draft asks for at least.
FULL: Final = ("@method", "@authority", "@path", "@query")
LEAST: Final = ("@authority",)


def requests(count: int, covered: Sequence[str], *, now: float, digest: bool) -> tuple[PublicKey, list[Signed]]:
    """Requests of one agent, each signed for itself."""
    private = Ed25519PrivateKey.from_private_bytes(b"bench key, and nothing but that!")
    signer = Signer(private, AGENT, clock=lambda: now)
    headers = (
        (b"host", b"gate.example"),
        (b"user-agent", b"bench/1"),
        (b"accept", b"application/json, text/event-stream"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
        (b"mcp-protocol-version", b"2025-11-25"),
    )
    made = []
    for _ in range(count):
        bare = Signed("POST", "https", "gate.example", "/mcp", None, headers, BODY)
        added = signer.sign(bare, covered=covered, digest=digest, expires_in=480)
        more = tuple((name.lower().encode(), value.encode()) for name, value in added.items())
        made.append(Signed("POST", "https", "gate.example", "/mcp", None, headers + more, BODY))
    return PublicKey.read(signer.jwk, AGENT), made


def ours(key: PublicKey, given: Sequence[Signed], now: float) -> float:
    """CPU microseconds a request, verified whole."""

    async def lookup(keyid: str, directory: str | None) -> PublicKey | None:
        return key if (directory, keyid) == (AGENT, key.thumbprint) else None

    async def run() -> float:
        verifier = Verifier(VerifySettings(), lookup, MemoryAgents(), lambda: now)
        began = time.process_time()
        for one in given:
            await verifier.verify(one)
        return (time.process_time() - began) / len(given) * 1e6

    return asyncio.run(run())


def raw(key: PublicKey, given: Sequence[Signed]) -> float:
    """CPU microseconds for the bare signatures of the same requests, with everything else done beforehand."""
    pairs = []
    for one in given:
        message = SignedMessage(one)
        ((label, read),) = inputs(message.header(b"signature-input") or b"").items()
        signature = signatures(message.header(b"signature") or b"")[label]
        if read is None or signature is None:
            raise RuntimeError("the bench signs its requests")
        pairs.append((signature, signature_base(read, message)))
    check = key.public.verify
    began = time.process_time()
    for signature, base in pairs:
        check(signature, base)
    return (time.process_time() - began) / len(given) * 1e6


def theirs(key: PublicKey, given: Sequence[Signed], *, digest: bool) -> float:
    """CPU microseconds a request with http-message-signatures, which keeps no nonces and needs no expiry."""
    resolver = MappingKeyResolver(public_keys={key.thumbprint: key.public}, private_keys={})
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=resolver)
    messages = [
        SimpleNamespace(
            method=one.method,
            url=f"{one.scheme}://{one.authority}{one.path}",
            headers={name.decode(): value.decode() for name, value in one.headers},
            body=one.body,
        )
        for one in given
    ]
    began = time.process_time()
    for message in messages:
        verifier.verify(message, max_age=None, expect_tag="web-bot-auth", body=message.body if digest else None)
    return (time.process_time() - began) / len(given) * 1e6


def measure(step: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    """Verifications per CPU second: ours, the bare signature's, another library's. Rounds alternate on one machine."""
    logging.getLogger("http_message_signatures").setLevel(logging.ERROR)
    rounds, count = (5, 1_500) if quick else (9, 8_000)
    found: dict[str, Any] = {}
    for name, covered, digest in (("full", FULL, False), ("full_with_digest", FULL, True), ("least", LEAST, False)):
        step(f"web bot auth, {name.replace('_', ' ')}")
        # The other library asks the machine for the time.
        now = time.time()
        key, given = requests(count, covered, now=now, digest=digest)
        taken = [(ours(key, given, now), raw(key, given)) for _ in range(rounds)]
        us, bare = median(one for one, _ in taken), median(one for _, one in taken)
        found[name] = {
            "us_per_request": round(us, 1),
            "requests_per_cpu_second": round(1e6 / us),
            "raw_ed25519_per_cpu_second": round(1e6 / bare),
            "share_of_raw_percent": round(100 * median(two / one for one, two in taken), 1),
        }
        other = median(theirs(key, given[:500], digest=digest) for _ in range(3))
        found[name]["http_message_signatures_per_cpu_second"] = round(1e6 / other)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(print, quick=True), indent=1))
