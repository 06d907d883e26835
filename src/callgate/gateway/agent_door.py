"""Who sends an HTTP request: found out before anything of it is forwarded.

The order is that of the whole gate: kill switch, signature (or token, or key), directory, rules, rate limit, KYA token.
Up to the directory a refusal ends the request here. Rules, limits and tokens of a call are for the gate to say, so that
they are on record: the door notes what it found on the exchange, and asks nothing further of a call that the rules
forbid anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from callgate.agents.acl import Acl, permits
from callgate.agents.apikeys import PREFIX
from callgate.agents.decision import identity_headers
from callgate.agents.kya import KyaPolicy, attest
from callgate.agents.model import Caller, Signed, Verified
from callgate.errors import Reason, Refused, StoreError, place
from callgate.gateway.agent_limits import CallLimits
from callgate.gateway.exchange import Exchange

log = logging.getLogger("callgate.agents")

SIGNATURE_HEADERS: Final = (b"signature", b"signature-input")
# Of no use to a server behind: they were for this gateway's name, and the body may yet be given labels.
_SIGNED_SPENT: Final = frozenset({*SIGNATURE_HEADERS, b"signature-agent", b"content-digest"})
_TOKEN_SPENT: Final = frozenset({b"authorization"})
_MAX_CREDENTIAL: Final = 16 * 1024 + 16
_CHALLENGED: Final = frozenset({401, 403})
# Told how many requests came by which proof, and which were refused for what.
Tell = Callable[[str, Reason | None], None]


class Verifies(Protocol):
    async def verify(self, signed: Signed) -> Verified: ...


class Names(Protocol):
    """Says whose a verified key is; None where it is nobody's that is listed."""

    async def caller(self, verified: Verified) -> Caller | None: ...


class Takes(Protocol):
    """Says whose token or key a text is; raises Refused."""

    async def verify(self, text: str, /) -> Caller: ...


class Ways(msgspec.Struct, frozen=True):
    """How callers can prove who they are; None where that way is closed."""

    signatures: Verifies | None = None
    # For requests without a body of their own, which have nothing that a digest could bind.
    bodiless: Verifies | None = None
    names: Names | None = None
    bearer: Takes | None = None
    api_keys: Takes | None = None
    # What to send with a refusal, so that a client knows how to get a token (RFC 6750 §3).
    challenge: Callable[[Refused], str] | None = None


class AgentDoor:
    """The way in for HTTP requests, as one configuration has it."""

    def __init__(
        self,
        ways: Ways,
        *,
        required: bool,
        acl: Acl,
        limits: CallLimits,
        kya: KyaPolicy,
        external: tuple[str, str] | None,
        seconds: float,
        tell: Tell,
        digest: bool = False,
    ) -> None:
        self._ways = ways
        self._required = required
        self._acl = acl
        self._limits = limits
        self._kya = kya
        self._external = external
        self._seconds = seconds
        self._tell = tell
        # Whether rules look into the body: then nobody is taken at their word whose signature leaves it out.
        self._digest = digest

    def glance(self, exchange: Exchange) -> None:
        """Before the body is read: refuse who brings nothing at all."""
        if self._required and not self._brings(exchange):
            refused = self._missing()
            self._refused(exchange, refused)
            raise refused

    async def come_in(self, exchange: Exchange, server: str, body: bytes, tools: Sequence[str]) -> None:
        """Find out who sent this; raises Refused. `tools` are those that it calls."""
        if not self._brings(exchange):
            if self._required:
                self.glance(exchange)
            self._tell("none", None)
            if tools and self._limits.any:
                exchange.barred = await self._spend(exchange, f"peer:{exchange.peer}", server, tools)
            return
        try:
            async with asyncio.timeout(self._seconds):
                caller = await self._identify(exchange, body)
                if caller is not None:
                    await self._consider(exchange, caller, server, tools)
        except Refused as refused:
            self._refused(exchange, refused)
            raise
        except TimeoutError:
            raise self._broken(exchange, Reason.CHECK_TIMEOUT, "took too long") from None
        except StoreError as error:
            raise self._broken(exchange, Reason.STORE_UNAVAILABLE, place(error)) from None
        except Exception as error:  # noqa: BLE001 - fail closed: what nobody thought of is refused, never a pass
            raise self._broken(exchange, Reason.CHECK_FAILED, place(error)) from None

    # ---- who ----

    def _brings(self, exchange: Exchange) -> bool:
        """Whether a request carries anything that is for us to verify."""
        fields = exchange.fields
        if self._ways.signatures is not None and (b"signature" in fields or b"signature-input" in fields):
            return True
        given = fields.get(b"authorization")
        if given is None:
            return False
        if self._required or self._ways.bearer is not None:
            return self._ways.bearer is not None or self._ways.api_keys is not None
        # A token may be for the server behind; what looks like a key of ours is nobody else's.
        return self._ways.api_keys is not None and PREFIX.encode() in given

    def _missing(self) -> Refused:
        signs = self._ways.signatures is not None
        return Refused(Reason.MISSING_SIGNATURE_HEADERS if signs else Reason.CREDENTIALS_REQUIRED)

    async def _identify(self, exchange: Exchange, body: bytes) -> Caller | None:
        """A request with a signature stands or falls with it, whatever else it carries."""
        fields = exchange.fields
        if self._ways.signatures is not None and (b"signature" in fields or b"signature-input" in fields):
            return await self._signed(exchange, body)
        token = self._token(exchange)
        if token is None:
            return None
        exchange.spent = _TOKEN_SPENT
        if self._ways.api_keys is not None and token.startswith(PREFIX):
            return await self._ways.api_keys.verify(token)
        if self._ways.bearer is None:
            raise Refused(Reason.CREDENTIALS_INVALID, "this is no API key of this gateway")
        return await self._ways.bearer.verify(token)

    async def _signed(self, exchange: Exchange, body: bytes) -> Caller:
        verifier = self._ways.signatures if exchange.method == "POST" else self._ways.bodiless
        assert verifier is not None
        assert self._ways.names is not None
        verified = await verifier.verify(self.request(exchange, body))
        if self._digest and exchange.method == "POST" and not verified.digest_verified:
            # The verifier sees to this; one that does not is no reason to let a body slip in.
            raise Refused(Reason.CONTENT_DIGEST_REQUIRED)
        caller = await self._ways.names.caller(verified)
        if caller is None:
            raise Refused(Reason.AGENT_NOT_IN_DIRECTORY)
        exchange.spent = _SIGNED_SPENT
        if body and not verified.digest_verified:
            fields = {"agent": caller.id, "key": caller.key, "contentDigestVerified": False}
            log.info("body not bound to its signature", extra={"fields": fields})
        return caller

    def _token(self, exchange: Exchange) -> str | None:
        """The bearer token of a request; None where it carries another kind of credential that need not be for us."""
        values = [value for name, value in exchange.headers if name == b"authorization"]
        if len(values) > 1 or len(values[0]) > _MAX_CREDENTIAL or not values[0].isascii():
            raise Refused(Reason.CREDENTIALS_INVALID, "Authorization has to be there once, and short")
        scheme, _, token = values[0].strip().partition(b" ")
        if scheme.lower() == b"bearer" and token.strip():
            return token.strip().decode()
        if self._required:
            raise Refused(Reason.CREDENTIALS_REQUIRED, "Authorization carries no bearer token")
        return None

    def request(self, exchange: Exchange, body: bytes) -> Signed:
        """The request as its sender saw it: under the name that they know this gateway by."""
        host = exchange.fields.get(b"host", b"").decode("latin-1").strip()
        scheme, authority = (exchange.scheme, host) if self._external is None else self._external
        # A `?` with nothing behind it is no query to an ASGI server; nor is it to anybody who routes by it.
        query = exchange.query.decode("latin-1") if exchange.query else None
        path = (exchange.raw_path or exchange.path.encode()).partition(b"?")[0].decode("latin-1")
        return Signed(exchange.method, scheme, authority, path, query, tuple(exchange.headers), body)

    # ---- what they may ----

    async def _consider(self, exchange: Exchange, caller: Caller, server: str, tools: Sequence[str]) -> None:
        policy = self._acl.policy(caller.id, server)
        if policy.denied and not tools:
            raise Refused(Reason.AGENT_DENIED)
        exchange.caller = caller
        exchange.identity = identity_headers(caller)
        self._tell(caller.source, None)
        if policy.denied or not all(permits(policy, tool) for tool in tools):
            return  # the gate says so, and has it on record
        if tools and self._limits.any:
            exchange.barred = await self._spend(exchange, caller.id, server, tools)
        if self._kya.mode != "off" and exchange.barred is None:
            await self._attest(exchange, caller, calls=bool(tools))

    async def _spend(self, exchange: Exchange, who: str, server: str, tools: Sequence[str]) -> Refused | None:
        allowance = await self._limits.take(who, server, tools)
        exchange.answering = tuple((name.lower().encode(), value.encode()) for name, value in allowance.headers)
        return None if allowance.ok else allowance.refusal()

    async def _attest(self, exchange: Exchange, caller: Caller, *, calls: bool) -> None:
        try:
            attested = await attest(self._kya, tuple(exchange.headers), caller)
        except Refused as refused:
            if not calls:
                raise
            exchange.barred = refused
            return
        exchange.spent |= {self._kya.header}
        if attested is not None:
            claims = {**caller.claims, "kya": attested.claims}
            exchange.caller = msgspec.structs.replace(caller, principal=attested.principal, claims=claims)

    # ---- saying no ----

    def _refused(self, exchange: Exchange, refused: Refused) -> None:
        self._tell("none" if exchange.caller is None else exchange.caller.source, refused.reason)
        if self._ways.challenge is not None and refused.status in _CHALLENGED:
            exchange.answering += ((b"www-authenticate", self._ways.challenge(refused).encode()),)
        fields = {"reason": refused.reason.value, "peer": exchange.peer or "", "path": exchange.path[:256]}
        if exchange.caller is not None:
            fields["agent"] = exchange.caller.id
        log.warning("caller refused", extra={"fields": fields})

    def _broken(self, exchange: Exchange, reason: Reason, why: str) -> Refused:
        # What broke goes to the operator's log; the caller learns only that nobody could tell who they are.
        log.error("check failed", extra={"fields": {"check": "agents", "reason": reason.value, "error": why}})
        refused = Refused(reason, f"{reason.meaning} (check: agents)")
        self._refused(exchange, refused)
        return refused
