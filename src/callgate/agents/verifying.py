"""Verify the signatures of a request, and say whose they are before any nonce is used up."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from callgate.agents.components import SignedMessage, signature_base
from callgate.agents.fields import (
    MAX_TEXT,
    Advertised,
    Input,
    Params,
    advertised,
    check_digest,
    components,
    covers_digest,
    inputs,
    signatures,
)
from callgate.agents.keys import ECDSA_P256, ED25519, RSA_PSS_256, RSA_PSS_512, PublicKey
from callgate.agents.model import MAX_WINDOW, SKEW, TAG, Profile, Signed, Verified
from callgate.agents.nonces import StrangersShare
from callgate.agents.storage import NonceStore
from callgate.errors import ConfigError, Reason, Refused
from callgate.gate import Caller

# Thumbprints (RFC 7638) of keys whose private half is printed in a specification: whoever can read may sign with them.
# They are those of RFC 9421 appendix B.1 and of two RFCs about JWK.
PUBLISHED: Final = frozenset(
    {
        "BHj8s0GPnMEQtkaULIM-PLgEhLBbuGUQ1vMxmBWZzEo",  # test-key-rsa
        "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",  # test-key-rsa-pss
        "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",  # test-key-ecc-p256
        "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",  # test-key-ed25519
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",  # RFC 7638 §3.1
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",  # RFC 8037 appendix A
    }
)


class Terms(NamedTuple):
    """The parameters of a signature, each of the type that it has to be."""

    keyid: str
    created: int
    expires: int
    nonce: str | None
    algorithm: str | None


def read_terms(given: Input, *, nonce: bool) -> Terms:
    """The parameters that are needed, and a nonce where that is needed too."""
    params = given.params
    keyid, created, expires = _text(params, "keyid"), params.get("created"), params.get("expires")
    once = _text(params, "nonce")
    if keyid is None or created is None or expires is None or (nonce and once is None):
        needed = ("keyid", "created", "expires", "nonce") if nonce else ("keyid", "created", "expires")
        missing = ", ".join(name for name in needed if name not in params)
        raise Refused(Reason.MISSING_REQUIRED_PARAM, f"The signature lacks the parameter {missing}.")
    # Not isinstance: true is an int as well.
    if type(created) is not int or type(expires) is not int:
        raise Refused(Reason.TIMESTAMP_NOT_INTEGER)
    return Terms(keyid, created, expires, once, _text(params, "alg"))


def check_window(terms: Terms, now: float, longest: int, skew: int) -> None:
    """created ≤ now ≤ expires, and not too far apart. Only a clock that is ahead is forgiven, by `skew` seconds."""
    if terms.expires <= terms.created:
        raise Refused(Reason.SIGNATURE_EXPIRED, "The signature expires before it was created, or at once.")
    if terms.expires - terms.created > longest:
        raise Refused(
            Reason.WINDOW_TOO_LARGE,
            f"The signature is valid for {terms.expires - terms.created} seconds; {longest} are taken here.",
        )
    if terms.created > now + skew:
        raise Refused(Reason.CREATED_IN_FUTURE)
    if terms.expires < now:
        raise Refused(Reason.SIGNATURE_EXPIRED)


def _text(params: Params, name: str) -> str | None:
    value = params.get(name)
    if value is None:
        return None
    # Tokens and display strings are no str; strings of structured fields are ASCII.
    if type(value) is not str or not 0 < len(value) <= MAX_TEXT:
        raise Refused(
            Reason.SIGNATURE_INPUT_MALFORMED,
            f"The parameter {name} has to be a string of at most {MAX_TEXT} characters.",
        )
    return value


class Coverage(NamedTuple):
    """What a list of components binds a signature to."""

    # As they stand in the signature base.
    texts: tuple[str, ...]
    host: bool
    body: bool
    # The members of Signature-Agent; None for that header whole.
    agents: tuple[str | None, ...]


@lru_cache(maxsize=256)
def coverage(listed: str) -> Coverage:
    """For the text of an inner list."""
    found = components(listed)
    return Coverage(
        texts=tuple(one.text for one in found),
        host=any(one.name in {"@authority", "@target-uri"} for one in found),
        body=covers_digest(found),
        agents=tuple(one.params.get("key") for one in found if one.name == "signature-agent"),
    )


def covered_agent(
    label: str, covered: Coverage, message: SignedMessage, labels: AbstractSet[str] = frozenset()
) -> Advertised | None:
    """Check that enough is covered, and find the directory that is named: only what is covered is believed.

    `labels` are all of the request: a header that names directories for others says nothing about this one.
    """
    if not covered.host:
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Neither @authority nor @target-uri is covered.")
    raw = message.header(b"signature-agent")
    if raw is None:
        return None
    sent = advertised(raw)
    if not covered.agents:
        if all(one.label != label and one.label in labels for one in sent):
            return None
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Signature-Agent is sent, and not covered.")
    wanted = _wanted(label, covered.agents, [one.label for one in sent])
    if wanted is None:
        raise Refused(
            Reason.MISSING_REQUIRED_COVERED_FIELD,
            "Which member of Signature-Agent belongs to the signature is not plain.",
        )
    for one in sent:
        if one.label == wanted:
            return one
    raise Refused(Reason.UNSUPPORTED_COVERED_FIELD, "A member of Signature-Agent is covered that is not sent.")


def _wanted(label: str, covered: tuple[str | None, ...], sent: list[str]) -> str | None:
    """The draft names the member like the label; published vectors do not, and what they mean is plain all the same."""
    choice = sent if None in covered else covered
    if label in choice:
        return label
    return choice[0] if len(choice) == 1 else None


_log = logging.getLogger(__name__)

# By key id and the URL that Signature-Agent names; the URL is None where that header is not sent.
Lookup: TypeAlias = Callable[[str, str | None], Awaitable[PublicKey | None]]
Clock: TypeAlias = Callable[[], float]


class Attribution(msgspec.Struct, frozen=True):
    """Whose a signature is."""

    caller: Caller
    # Whether rules refuse the request: then its nonce need not be remembered.
    denied: bool = False


# Raises Refused where the key is nobody's who may come in.
Attribute: TypeAlias = Callable[[Verified], Awaitable[Attribution]]

# Each may need a directory fetched, so one request must not name many.
MAX_TRIED: Final = 4
_TAKEN: Final = frozenset({ED25519, ECDSA_P256, RSA_PSS_512})


class VerifySettings(msgspec.Struct, frozen=True):
    """What is asked of a signature. Times in seconds."""

    profile: Profile = "ietf"
    max_window: int = MAX_WINDOW
    # How far the clock of an agent may be ahead of ours.
    skew: int = SKEW
    content_digest: Literal["optional", "required"] = "optional"
    # A nonce is needed as soon as there is a store that remembers them.
    nonce: Literal["optional", "required"] = "required"
    rsa_pss_sha256: bool = False
    # Whether the `kid` of a key may stand for its thumbprint; the legacy profile allows it.
    kid_fallback: bool = False
    allow_test_keys: bool = False
    # An Ed25519 key for development, used where no directory has the key.
    test_key: PublicKey | None = None
    # Whether Signature-Agent may name an http origin; for development.
    plain_http: bool = False
    production: bool = False

    def problems(self, *, nonces: bool) -> list[str]:
        """Why these settings cannot be used; empty where they can."""
        found = []
        if self.max_window <= 0 or self.skew < 0:
            found.append("max_window has to be above zero and skew not below it")
        if self.test_key is not None and self.test_key.algorithms != (ED25519,):
            found.append("test_key has to be an Ed25519 key")
        if self.production:
            if self.test_key is not None or self.allow_test_keys:
                found.append("keys for tests are not for production; take test_key and allow_test_keys away")
            if not nonces:
                found.append("without a store for nonces a request can be sent again; give one in production")
        return found


class _Holds(NamedTuple):
    """A signature that holds, but for its nonce."""

    label: str
    key: PublicKey
    algorithm: str
    terms: Terms
    covered: Coverage


class _Attributed(NamedTuple):
    """A signature that holds, and whose it is."""

    holds: _Holds
    verified: Verified
    whose: Attribution


class Verifier:
    """Verifies requests by keys that `lookup` finds and nonces that `nonces` remembers."""

    def __init__(
        self,
        settings: VerifySettings,
        lookup: Lookup,
        nonces: NonceStore | None = None,
        clock: Clock = time.time,
        *,
        share: StrangersShare | None = None,
    ) -> None:
        if problems := settings.problems(nonces=nonces is not None):
            raise ConfigError("; ".join(problems), advice="Change the settings for signatures and start again.")
        if nonces is None:
            _log.warning("no store for nonces: a request that somebody recorded can be sent again until it expires")
        self._settings = settings
        self._lookup = lookup
        self._nonces = nonces
        self._share = share or StrangersShare()
        self._clock = clock
        self._needs_nonce = nonces is not None and settings.nonce == "required"
        self._needs_digest = settings.content_digest == "required"
        self._longest, self._skew = settings.max_window, settings.skew
        self._taken = _TAKEN | {RSA_PSS_256} if settings.rsa_pss_sha256 else _TAKEN
        self._by_kid = settings.kid_fallback or settings.profile == "legacy"

    async def verify(self, signed: Signed) -> Verified:
        """The first label whose signature holds and is new; otherwise Refused, for what is wrong with the first one."""
        return (await self.attribute(signed, _by_key))[0]

    async def attribute(self, signed: Signed, attribute: Attribute) -> tuple[Verified, Attribution]:
        """The same, with whose it is. Of several signatures that hold, that of an agent that somebody listed counts.

        A nonce is stored only for who is let in: otherwise strangers could fill the store.
        """
        message = SignedMessage(signed)
        others: dict[str, Reason] = {}
        found: list[_Attributed] = []
        first: Refused | None = None
        for holds in await self._holding(message, others):
            if isinstance(holds, Refused):
                first = first or holds
                continue
            verified = _verified(holds, message)
            try:
                found.append(_Attributed(holds, verified, await attribute(verified)))
            except Refused as refused:
                others[holds.label] = refused.reason
                # That it holds, and is nobody's, says more than what is wrong with another one.
                first = refused if first is None or first.status != refused.status else first
        found.sort(key=lambda one: not one.whose.caller.listed)
        if found and (fresh := await self._fresh(found, others)) is not None:
            told = {label: reason.value for label, reason in others.items()}
            return msgspec.structs.replace(fresh.verified, others=told) if told else fresh.verified, fresh.whose
        why = first if first is not None and not found else Refused(Reason.NONCE_REPLAY)
        if len(others) > 1:
            why.data = {**why.data, "labels": {label: reason.value for label, reason in others.items()}}
        raise why

    async def _holding(self, message: SignedMessage, others: dict[str, Reason]) -> list[_Holds | Refused]:
        """The signatures that hold, and in place of the others what is wrong with them."""
        raw_inputs, raw_signatures = message.header(b"signature-input"), message.header(b"signature")
        if raw_inputs is None or raw_signatures is None:
            raise Refused(Reason.MISSING_SIGNATURE_HEADERS)
        given, held = inputs(raw_inputs), signatures(raw_signatures)
        found: list[_Holds | Refused] = []
        for label, one in _ours(given, held.keys(), others).items():
            try:
                found.append(await self._check(label, one, held.get(label), message, given.keys()))
            except Refused as refused:
                others[label] = refused.reason
                found.append(refused)
        return found

    async def _check(
        self, label: str, given: Input, signature: bytes | None, message: SignedMessage, labels: AbstractSet[str]
    ) -> _Holds:
        """Everything about one label but its nonce; what is cheap comes first, and before any directory is asked."""
        terms = read_terms(given, nonce=self._needs_nonce)
        if terms.algorithm is not None and terms.algorithm not in self._taken:
            raise Refused(Reason.UNSUPPORTED_ALG, f"The algorithm {terms.algorithm[:64]} is not taken here.")
        check_window(terms, self._clock(), self._longest, self._skew)
        covered = coverage(given.listed)
        directory = covered_agent(label, covered, message, labels)
        named = None if directory is None else named_directory(directory, plain_http=self._settings.plain_http)
        digest = message.header(b"content-digest")
        if self._needs_digest:
            _need_digest(digest, covered)
        if not signature:
            raise Refused(
                Reason.SIGNATURE_MALFORMED, f"There is no byte sequence in Signature for the label {label[:64]}."
            )
        base = signature_base(given, message)
        found = await self._lookup(terms.keyid, named)
        # Finding it may have taken a while.
        if terms.expires < (now := self._clock()):
            raise Refused(Reason.SIGNATURE_EXPIRED)
        key = self._accepted(found, terms.keyid, now)
        algorithm = key.algorithm(terms.algorithm, self._taken)
        if not key.verifies(algorithm, signature, base):
            raise Refused(Reason.SIGNATURE_INVALID)
        if digest is not None:
            check_digest(digest, message.body)
        return _Holds(label, key, algorithm, terms, covered)

    def _accepted(self, key: PublicKey | None, keyid: str, now: float) -> PublicKey:
        """The key that was found, if it bears out the id by which it was looked for and may be used."""
        if key is not None and key.thumbprint != keyid and not (self._by_kid and key.kid == keyid):
            key = None
        if key is None:
            test = self._settings.test_key
            if test is not None and keyid in {test.thumbprint, test.kid}:
                return replace(test, directory="test")
            raise Refused(Reason.UNKNOWN_KEYID)
        if key.thumbprint in PUBLISHED and not self._settings.allow_test_keys:
            raise Refused(
                Reason.UNKNOWN_KEYID,
                "The private half of this key is printed in a specification; make one of your own.",
            )
        if (key.not_before is not None and key.not_before > now) or (key.not_after is not None and key.not_after < now):
            raise Refused(Reason.UNKNOWN_KEYID, "The directory limits the life of this key to another time.")
        return key

    async def _fresh(self, found: list[_Attributed], others: dict[str, Reason]) -> _Attributed | None:
        """Take the nonces. Of several signatures that hold each one is taken: none of them is good for another time."""
        if self._nonces is None or found[0].whose.denied:
            return found[0]
        first: _Attributed | None = None
        for one in found:
            if one.whose.denied or await self._take(self._nonces, one):
                first = first or one
            else:
                others[one.holds.label] = Reason.NONCE_REPLAY
        return first

    async def _take(self, nonces: NonceStore, one: _Attributed) -> bool:
        terms, key = one.holds.terms, one.holds.key
        if terms.nonce is None:
            return True
        # Remembered for longer than any node, whose clock may be behind by `skew`, takes the signature.
        until, now = (terms.expires + 1 + self._skew) * 1000, round(self._clock() * 1000)
        listed = one.whose.caller.listed
        if not listed:
            self._share.demand(key.directory, now)
        if not await nonces.take_nonce(key.thumbprint, terms.nonce, until, now):
            return False
        if not listed:
            self._share.add(key.directory, until)
        return True


async def _by_key(verified: Verified) -> Attribution:
    """Where nobody says whose a key is."""
    caller = Caller(
        verified.keyid, "web-bot-auth", verified.keyid, verified.directory, listed="://" not in verified.directory
    )
    return Attribution(caller)


def named_directory(named: Advertised, *, plain_http: bool = False) -> str:
    """The origin that a member of Signature-Agent names. The draft has a verifier ignore a member with anything more.

    A path, a query or a fragment could lead to a file that somebody else put on that host.
    """
    if named.type != "directory":
        raise Refused(
            Reason.UNKNOWN_KEYID, f"Signature-Agent names a {named.type[:64]}; only key directories are read here."
        )
    if named.uri[:5].lower() == "data:":
        return named.uri
    try:
        parts = urlsplit(named.uri)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" and not (plain_http and parts.scheme == "http"):
        raise Refused(Reason.SIGNATURE_INPUT_MALFORMED, "Signature-Agent has to name an https origin.")
    if parts.path not in ("", "/") or any(mark in named.uri for mark in "?#@\\"):
        raise Refused(
            Reason.UNKNOWN_KEYID,
            "Signature-Agent names more than an origin, so no directory is looked up.",
            advice="Name the origin alone, such as https://agent.example, without a path, query, fragment or user.",
        )
    return named.uri


def _ours(given: dict[str, Input | None], signed: AbstractSet[str], others: dict[str, Reason]) -> dict[str, Input]:
    """The labels with our tag; why each of the rest is not looked at goes to `others`."""
    found: dict[str, Input] = {}
    if len(signed) > 1 or not signed <= given.keys():
        others.update(dict.fromkeys(signed - given.keys(), Reason.SIGNATURE_INPUT_MALFORMED))
    for label, one in given.items():
        tag = None if one is None else one.params.get("tag")
        if one is not None and tag == TAG and type(tag) is str:
            found[label] = one
        elif one is None or (tag is not None and type(tag) is not str):
            others[label] = Reason.SIGNATURE_INPUT_MALFORMED
        else:
            others[label] = Reason.MISSING_REQUIRED_PARAM if tag is None else Reason.WRONG_TAG
    if len(found) > MAX_TRIED:
        raise Refused(
            Reason.SIGNATURE_INPUT_MALFORMED, f"At most {MAX_TRIED} signatures of a request are tried, here are more."
        )
    if not found:
        told = [others[label] for label in given]
        order = (Reason.WRONG_TAG, Reason.MISSING_REQUIRED_PARAM, Reason.SIGNATURE_INPUT_MALFORMED)
        raise Refused(next(reason for reason in order if reason in told))
    return found


def _need_digest(digest: bytes | None, covered: Coverage) -> None:
    if digest is None:
        raise Refused(Reason.CONTENT_DIGEST_REQUIRED, "The request has no Content-Digest.", status=400)
    if not covered.body:
        raise Refused(Reason.CONTENT_DIGEST_REQUIRED, "Content-Digest is not covered by the signature.", status=401)


def _verified(one: _Holds, message: SignedMessage) -> Verified:
    return Verified(
        label=one.label,
        keyid=one.key.thumbprint,
        algorithm=one.algorithm,
        directory=one.key.directory,
        created=one.terms.created,
        expires=one.terms.expires,
        nonce=one.terms.nonce,
        covered=one.covered.texts,
        digest_verified=b"content-digest" in message.fields and one.covered.body,
    )
