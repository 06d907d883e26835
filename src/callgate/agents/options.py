"""What can be set about verifying signatures, with its defaults, and what must not be set together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from callgate.agents.directories import Directories, Sources
from callgate.agents.keys import Key
from callgate.agents.model import MAX_WINDOW, SKEW, Profile
from callgate.agents.verifying import Nonces, Settings
from callgate.errors import ConfigError, Refused

Digest: TypeAlias = Literal["optional", "required"]


class TestKey(msgspec.Struct, frozen=True):
    """An Ed25519 key for development: a name, and the public key in base64."""

    __test__ = False

    keyid: str
    base64: str


class VerifyOptions(msgspec.Struct, frozen=True):
    """How signatures are verified."""

    profile: Profile = "ietf"
    # Where keys come from (WB-046 to WB-049), unless the caller brings a lookup of their own.
    sources: Sources = Sources()
    nonces: Nonces | None = None
    # None: a nonce is needed as soon as there is a place to remember it (WB-059).
    nonce: Literal["optional", "required"] | None = None
    max_window_seconds: int = MAX_WINDOW
    skew_seconds: int = SKEW
    # None: optional, and required as soon as a rule looks at a tool (WB-019, WB-052).
    content_digest: Digest | None = None
    rsa_pss_sha256: bool = False
    allow_test_keys: bool = False
    test_public_key: TestKey | None = None
    # Seconds since 1970; for tests.
    now: Callable[[], float] = time.time


def settled(options: VerifyOptions, *, tool_rules: bool, production: bool) -> Settings:
    """What is asked of a signature, with what follows from the rest; raises ConfigError on a contradiction."""
    if tool_rules and options.content_digest == "optional":
        raise ConfigError(
            "rules for tools need the body bound to its signature, and content_digest is set to optional",
            advice='Leave content_digest out, or set it to "required".',
        )
    if options.nonces is None and options.nonce == "required":
        raise ConfigError("nonces are required, and there is no place to remember them", advice="Give `nonces`.")
    return Settings(
        profile=options.profile,
        max_window=options.max_window_seconds,
        skew=options.skew_seconds,
        content_digest="required" if tool_rules else options.content_digest or "optional",
        nonce=options.nonce or "required",
        rsa_pss_sha256=options.rsa_pss_sha256,
        kid_fallback=options.sources.kid_fallback,
        allow_test_keys=options.allow_test_keys,
        test_key=None if options.test_public_key is None else _test_key(options.test_public_key),
        production=production,
    )


def by_environment(name: str = "CALLGATE_BLOCK_ALL", environ: Mapping[str, str] = os.environ) -> Callable[[], bool]:
    """A kill switch that is looked up anew for each request (WB-089); what is not clearly off is on."""
    return lambda: environ.get(name, "").strip().lower() not in {"", "0", "false", "off", "no"}


def directories(options: VerifyOptions) -> Directories:
    """The directories of the options; its owner closes it."""
    by_kid = options.sources.kid_fallback or options.profile == "legacy"
    return Directories(msgspec.structs.replace(options.sources, kid_fallback=by_kid), clock=options.now)


def _test_key(given: TestKey) -> Key:
    x = given.base64.replace("+", "-").replace("/", "_").rstrip("=")
    try:
        return Key.read({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": given.keyid}, "test")
    except Refused as refused:
        raise ConfigError(f"test_public_key: {refused.message}", advice="Give the 32 bytes in base64.") from None
