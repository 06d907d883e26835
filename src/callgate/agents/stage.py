"""Who sends a request, and may they: ways to prove it, the check of the gate, what server and client are told."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from callgate.agents.apikeys import PREFIX
from callgate.agents.limits import Acl, Allowance, account_of, shown
from callgate.agents.model import IDENTITY_HEADERS, Signed, Verified
from callgate.errors import Reason, Refused, StoreError, place
from callgate.gate import (
    NOBODY,
    Call,
    Caller,
    CallerRefused,
    Context,
    Count,
    Headers,
    Identity,
    Pass,
    Refuse,
    Use,
    Verdict,
)
from callgate.jsonrpc import error_reply
from callgate.protocol import HOP_BY_HOP

_OURS: Final = frozenset(IDENTITY_HEADERS)
# Everything else is percent-encoded: no line can be broken, no list begun, and it can be undone.
_PLAIN: Final = "!#$&'()*+/:;=?@[]~"


class Response(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Headers
    body: bytes


class AgentDecision(msgspec.Struct, frozen=True):
    """Whether a request goes on. `info` is the signature that held, where there was one."""

    ok: bool
    reason: Reason | None = None
    status: int = 200
    detail: str = ""
    caller: Caller | None = None
    info: Verified | None = None
    tools: tuple[str, ...] = ()
    request: Signed | None = None
    refused: Refused | None = None
    # For the answer, whoever gives it: Retry-After and the rate limit's, or WWW-Authenticate.
    headers: Headers = ()
    # Request headers that were for us alone.
    used: frozenset[bytes] = frozenset()

    def __repr__(self) -> str:
        # Nothing of the request: its headers may hold a secret.
        who = self.caller.id if self.caller is not None else ""
        return f"Decision(ok={self.ok}, reason={self.reason}, status={self.status}, caller={who!r})"

    @property
    def raw_body(self) -> bytes:
        """The bytes that were verified: send these on, and no others (WB-028)."""
        return self.request.body if self.ok and self.request is not None else b""

    def to_response(self) -> Response:
        """The answer to a request that does not go on; its body is the JSON-RPC error with `error.data.reason`."""
        if self.refused is None:
            raise ValueError("a request that is let through is not answered here")
        headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"), *self.headers)
        return Response(self.status, headers, error_reply(None, self.refused))

    def identity_headers(self) -> Headers:
        """Who was verified, for the server behind (WB-029)."""
        if not self.ok or self.caller is None:
            raise ValueError("nobody was verified")
        return identity_headers(self.caller)

    def forward_headers(self) -> Headers:
        """The request's headers as they travel on: without claims of identity or what was for us, with ours instead."""
        ours = self.identity_headers()
        return (*stripped(self.request.headers if self.request is not None else (), self.used), *ours)


def refusal(refused: Refused, *, headers: Headers = (), **known: Any) -> AgentDecision:
    """The decision that a refusal is."""
    return AgentDecision(
        ok=False,
        reason=refused.reason,
        status=refused.status,
        detail=refused.message,
        refused=refused,
        headers=headers,
        **known,
    )


def identity_headers(caller: Caller) -> Headers:
    """The headers that tell who was verified; what is empty is left out."""
    verified = "true" if caller.digest_verified else "false"
    return _identity_headers(caller.id, caller.key, caller.directory, caller.source, verified)


@lru_cache(maxsize=1024)
def _identity_headers(*values: str) -> Headers:
    # Agents come again and again, and quoting takes longer than all else about these.
    pairs = zip(IDENTITY_HEADERS, values, strict=True)
    return tuple((name, quote(value, safe=_PLAIN).encode()) for name, value in pairs if value)


def stripped(headers: Headers, used: frozenset[bytes] = frozenset()) -> Headers:
    """A request's headers without copies of ours, in any spelling that a server may read as ours, and without hops.

    A client may not name ours in Connection either, to have the next proxy drop them.
    """
    named = {one.strip() for name, value in headers if name == b"connection" for one in value.lower().split(b",")}
    gone = HOP_BY_HOP | named | used
    return tuple((name, value) for name, value in headers if name.lower() not in gone and not is_identity(name))


def is_identity(name: bytes) -> bool:
    """Whether a server could take this header for one of ours: CGI reads `_` and `-` as one."""
    folded = name.strip().lower().replace(b"_", b"-")
    return folded in _OURS or folded.startswith(b"callgate-agent-")


log = logging.getLogger("callgate.agents")

# Told by which proof a request came that was refused, and why it was.
ReportProof: TypeAlias = Callable[[str, Reason], None]

# Of no use to a server behind: they were for this gateway's name, and the body may yet be given labels.
_SIGNED_SPENT: Final = frozenset({b"signature", b"signature-input", b"signature-agent", b"content-digest"})
_TOKEN_SPENT: Final = frozenset({b"authorization"})
_ALL_SPENT: Final = _SIGNED_SPENT | _TOKEN_SPENT
_MAX_CREDENTIAL: Final = 16 * 1024 + 16
# Names that every machine has for itself: over the network they are somebody else's.
_OWN_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"})  # noqa: S104


class IncomingRequest(Protocol):
    """An HTTP request as the agents stage reads it."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    scheme: str
    headers: list[tuple[bytes, bytes]]
    fields: dict[bytes, bytes]
    peer: str | None
    server: tuple[str, int | None] | None


class CallBudget(Protocol):
    """How many calls a caller may make; `any` says whether there is a limit at all.

    `later` says whether a call can be counted in the transaction of its decision, as what `use` gives.
    """

    any: bool
    later: bool

    async def take(self, agent: str, server: str, tools: Sequence[str]) -> Allowance: ...

    def use(self, agent: str, server: str, tool: str) -> tuple[Use, ...]: ...


class AcceptedProofs(msgspec.Struct, frozen=True):
    """Which ways to prove who one is are open, and whether somebody has to; `kya` asks on whose behalf as well."""

    required: bool = False
    signatures: bool = False
    bearer: bool = False
    api_keys: bool = False
    kya: bool = False
    # Whether rules look into bodies: then a signature that leaves the body out proves nothing.
    digest: bool = False


class ProofVerifiers(Protocol):
    """What verifies each kind of proof; all raise Refused."""

    kya_header: bytes

    async def signed(
        self, request: Signed, permitted: Callable[[str], bool], *, body: bool, later: bool = False
    ) -> tuple[Caller, bool, tuple[Use, ...]]: ...

    async def token(self, text: str, resource: str = "") -> Caller: ...

    async def api_key(self, text: str) -> Caller: ...

    async def attested(self, headers: Headers, caller: Caller) -> Caller: ...

    def challenges(self, refused: Refused, resource: str = "") -> Headers: ...


class RequestAuthenticator:
    """The way in for HTTP requests, as one configuration has it."""

    def __init__(
        self,
        is_open: AcceptedProofs,
        make_proofs: Callable[[], ProofVerifiers],
        *,
        acl: Acl,
        limits: CallBudget,
        external: tuple[str, str] | None,
        names: Collection[str],
        resources: Mapping[str, str] = MappingProxyType({}),
        seconds: float,
        proved: Mapping[tuple[str, ...], Count],
        tell: ReportProof,
    ) -> None:
        self._open = is_open
        # One of these headers has to be there; empty where nobody has to prove anything.
        signing = {b"signature", b"signature-input"} if is_open.signatures else set()
        tokens = {b"authorization"} if is_open.bearer or is_open.api_keys else set()
        self.proof_headers = frozenset(signing | tokens) if is_open.required else frozenset()
        self._make_proofs = make_proofs
        self._acl = acl
        self._limits = limits
        # Scheme and authority that agents know this gateway by; otherwise it is what they call it.
        self._external = external
        # The hosts that an operator says are this gateway, with the port where they said one.
        self._names = frozenset(name.lower() for name in names)
        # The resource that each path is, as tokens name it.
        self._resources = resources
        self._seconds = seconds
        # Requests by the kind of proof that they came with.
        self._proved = proved
        self._tell = tell

    @cached_property
    def _proofs(self) -> ProofVerifiers:
        """Made when it is first needed."""
        return self._make_proofs()

    def precheck(self, request: IncomingRequest) -> None:
        """Refuse who brings nothing at all although they have to; that shows before the body is read."""
        if self.proof_headers and self.proof_headers.isdisjoint(request.fields):
            signs = self._open.signatures
            refused = Refused(Reason.MISSING_SIGNATURE_HEADERS if signs else Reason.CREDENTIALS_REQUIRED)
            raise self.refusal(request, NOBODY, refused)

    async def authenticate(
        self, request: IncomingRequest, server: str, body: bytes, tools: Sequence[str], *, later: bool = False
    ) -> Identity:
        """Find out who sent this; raises CallerRefused. `tools` are those that it calls.

        `later`: it is one call that goes before the gate next. What it uses up goes with the decision then.
        """
        # A request with a signature stands or falls with it, whatever else it carries.
        fields = request.fields
        signs = self._open.signatures and (b"signature" in fields or b"signature-input" in fields)
        brings = signs or (b"authorization" in fields and self._takes_token(fields[b"authorization"]))
        if not brings:
            self.precheck(request)
            # Of who is refused everything the gate refuses the calls, and this stage the rest.
            if not (self._limits.any if tools else self._acl.policy("", server).denied):
                self._proved["none",].value += 1
                return NOBODY
        # Whoever is asked for a token of a further issuer is asked in between, which may take long.
        later = later and self._limits.later and not self._open.kya
        found = NOBODY
        try:
            async with asyncio.timeout(self._seconds):
                denied = None
                if signs:
                    found, denied = await self._signer(request, server, body, tools, later=later)
                elif brings:
                    found = await self._token_bearer(request)
                return await self._count(request, server, tools, found, denied, later=later)
        except Refused as refused:
            raise self.refusal(request, found, refused) from None
        except TimeoutError:
            raise self._broken(request, found, Reason.CHECK_TIMEOUT, "took too long") from None
        except StoreError as error:
            raise self._broken(request, found, Reason.STORE_UNAVAILABLE, place(error)) from None
        except Exception as error:  # noqa: BLE001 - fail closed: what nobody thought of is refused, never a pass
            raise self._broken(request, found, Reason.CHECK_FAILED, place(error)) from None

    async def _count(
        self,
        request: IncomingRequest,
        server: str,
        tools: Sequence[str],
        found: Identity,
        denied: bool | None,
        *,
        later: bool,
    ) -> Identity:
        """What a caller may do by the rules, and how often. `denied` is what rules said, where they were asked."""
        caller = found.caller
        self._proved["none" if caller is None else caller.source,].value += 1
        if denied is None:
            denied = not self._acl.permits("" if caller is None else caller.id, server, tools)
        if denied:
            if not tools:
                raise Refused(Reason.AGENT_DENIED)
            return found  # the gate says so, and has it on record
        if tools and self._limits.any:
            who = f"peer:{request.peer}" if caller is None else account_of(caller)
            if later:
                return replace(found, uses=found.uses + self._limits.use(who, server, tools[0]))
            allowance = await self._limits.take(who, server, tools)
            barred = None if allowance.ok else allowance.refusal()
            found = replace(found, barred=barred, answering=allowance.answering)
        if self._open.kya and caller is not None and found.barred is None:
            return await self._attest(request, found, caller, calls=bool(tools))
        return found

    # ---- who ----

    def _takes_token(self, given: bytes) -> bool:
        """Whether what Authorization carries is for us to verify."""
        if self._open.required or self._open.bearer:
            return self._open.bearer or self._open.api_keys
        # A token may be for the server behind; what looks like a key of ours is nobody else's.
        return self._open.api_keys and PREFIX.encode() in given

    async def _token_bearer(self, request: IncomingRequest) -> Identity:
        token = self._token(request)
        if token is None:
            return NOBODY
        if self._open.api_keys and token.startswith(PREFIX):
            caller = await self._proofs.api_key(token)
        else:
            caller = await self._proofs.token(token, self._resources.get(request.path, ""))
        return Identity(caller, spent=_TOKEN_SPENT, told=identity_headers(caller))

    async def _signer(
        self, request: IncomingRequest, server: str, body: bytes, tools: Sequence[str], *, later: bool
    ) -> tuple[Identity, bool]:
        """Who signed a request, and whether rules refuse it."""
        posted = request.method == "POST"
        permitted = partial(self._acl.permits, server=server, tools=tools)
        signed = self._request(request, body)
        caller, denied, uses = await self._proofs.signed(signed, permitted, body=posted, later=later)
        if posted and not caller.digest_verified:
            if self._open.digest:
                # The verifier sees to this; one that does not is no reason to let a body slip in.
                raise Refused(Reason.CONTENT_DIGEST_REQUIRED)
            fields = {"agent": caller.id, "key": caller.key, "contentDigestVerified": False}
            log.info("body not bound to its signature", extra={"fields": fields})
        # A token or key of ours beside the signature is not the server's to see either (MCP authorization).
        shown = b"".join(value for name, value in request.headers if name == b"authorization")
        ours = self._open.bearer or (self._open.api_keys and PREFIX.encode() in shown)
        spent = _ALL_SPENT if ours else _SIGNED_SPENT
        return Identity(caller, uses=uses, spent=spent, told=identity_headers(caller)), denied

    def _token(self, request: IncomingRequest) -> str | None:
        """The bearer token of a request; None where it carries another kind of credential that need not be for us."""
        values = [value for name, value in request.headers if name == b"authorization"]
        if len(values) > 1 or len(values[0]) > _MAX_CREDENTIAL or not values[0].isascii():
            raise Refused(Reason.CREDENTIALS_INVALID, "Authorization has to be there once, and short")
        scheme, _, token = values[0].strip().partition(b" ")
        if scheme.lower() == b"bearer" and token.strip():
            return token.strip().decode()
        if self._open.required:
            raise Refused(Reason.CREDENTIALS_REQUIRED, "Authorization carries no bearer token")
        return None

    def _request(self, request: IncomingRequest, body: bytes) -> Signed:
        """The request as its sender saw it: under the name that they know this gateway by."""
        host = request.fields.get(b"host", b"").decode("latin-1").strip()
        if self._external is None and not self._is_here(host.lower(), request.server):
            raise Refused(
                Reason.HOST_NOT_ALLOWED,
                "the signature is for another port or machine than the one that it came to",
                advice="Sign for the address the gateway listens on; its operator names others in agents.external_url.",
            )
        scheme, authority = (request.scheme, host) if self._external is None else self._external
        path = (request.raw_path or request.path.encode()).partition(b"?")[0].decode("latin-1")
        # ASGI does not tell an empty query from none.
        query = request.query.decode("latin-1") if request.query else None
        return Signed(request.method, scheme, authority, path, query, tuple(request.headers), body)

    def _is_here(self, host: str, server: tuple[str, int | None] | None) -> bool:
        """Whether a Host that the guard let pass is where the request came to, or what an operator calls the gateway.

        What listens on the next port, or on the agent's own machine, could bring us what was signed for it.
        """
        if host in self._names or server is None:
            return host in self._names
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            name, port = host, "80"
        if int(port[:6]) != server[1]:
            return False
        return name in self._names or name not in _OWN_MACHINE or ipaddress.ip_address(server[0]).is_loopback

    async def _attest(self, request: IncomingRequest, found: Identity, caller: Caller, *, calls: bool) -> Identity:
        found = replace(found, spent=found.spent | {self._proofs.kya_header})
        try:
            return replace(found, caller=await self._proofs.attested(tuple(request.headers), caller))
        except Refused as refused:
            if not calls:
                raise
            return replace(found, barred=refused)

    # ---- saying no ----

    def refusal(self, request: IncomingRequest, found: Identity, refused: Refused) -> CallerRefused:
        """What there is to say of a sender who is refused: to them, in the log and in the counts."""
        caller = found.caller
        self._tell("none" if caller is None else caller.source, refused.reason)
        fields = {"reason": refused.reason.value, "peer": request.peer or "", "path": request.path[:256]}
        if caller is not None:
            fields["agent"] = caller.id
        log.warning("caller refused", extra={"fields": fields})
        challenges = self._proofs.challenges(refused, self._resources.get(request.path, ""))
        return CallerRefused(refused, replace(found, answering=found.answering + challenges))

    def _broken(self, request: IncomingRequest, found: Identity, reason: Reason, why: str) -> CallerRefused:
        # What broke goes to the operator's log; the caller learns only that nobody could tell who they are.
        log.error("check failed", extra={"fields": {"check": "agents", "reason": reason.value, "error": why}})
        return self.refusal(request, found, Refused(reason, f"{reason.meaning} (check: agents)"))


_PASS: Final = Pass()


class AgentCheck:
    """The check that `Gate(agents=…)` takes. It always has its answer at once: waiting was the door's."""

    def __init__(self, acl: Acl, *, required: bool) -> None:
        self._acl = acl
        # Whether who comes over the network has to have said who they are.
        self._required = required

    async def __call__(self, call: Call) -> Verdict:
        return self.at_once(call)

    def may_call(self, context: Context, tool: str, *, own: bool = False) -> bool:
        """Whether rules let this caller call a tool; `own`: it is the gateway's own, and no server's."""
        agent = "" if context.caller is None else context.caller.id
        if own:
            return not self._acl.shuts_out(agent, context.server, tool)
        return self._acl.permits(agent, context.server, (tool,))

    def callable_tools(self, context: Context, tools: Sequence[Any], own: Collection[str] = ()) -> list[Any]:
        """What of a list this caller may call: nobody is shown, or told the texts of, what is denied them."""
        agent = "" if context.caller is None else context.caller.id
        policy = self._acl.policy(agent, context.server)
        if not policy.denied and policy.allow is None and not policy.deny:
            return list(tools)
        names = [(one.get("name") if isinstance(one, dict) else None, one) for one in tools]
        return [one for name, one in names if isinstance(name, str) and self.may_call(context, name, own=name in own)]

    def answers(self, call: Call) -> bool:
        """Whether the gateway answers this call of a tool of its own; otherwise the gate says why not."""
        context = call.context
        if context.caller is None and self._required and context.transport != "stdio":
            return False
        return context.barred is None and self.may_call(context, call.tool, own=True)

    def at_once(self, call: Call) -> Verdict:
        context = call.context
        caller = context.caller
        if caller is None and self._required and context.transport != "stdio":
            # The door lets nobody in without: this is for whatever way there might be around it.
            return Refuse(Reason.CREDENTIALS_REQUIRED)
        agent = "" if caller is None else caller.id
        if not self._acl.permits(agent, context.server, (call.tool,)):
            if self._acl.policy(agent, context.server).denied:
                return Refuse(Reason.AGENT_DENIED)
            who = "who does not say who they are" if caller is None else "this agent"
            detail = f"{who} may not call {shown(call.tool)}"
            return Refuse(Reason.TOOL_DENIED, detail, data={"tool": shown(call.tool)})
        if context.barred is not None:
            return _refuse(context.barred)
        return _PASS


def _refuse(refused: Refused) -> Refuse:
    return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice, status=refused.status)
