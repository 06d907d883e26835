"""What can be set about verifying signatures, with its defaults, and what must not be set together."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.agents.apikeys import PREFIX, ApiKeys
from callgate.agents.directories import AgentDirectory, Directories, Sources
from callgate.agents.keys import PublicKey
from callgate.agents.kya import KyaPolicy, attest
from callgate.agents.limits import Acl, Limiter, OverBudget, ToolLimit, account_of
from callgate.agents.model import MAX_WINDOW, SKEW, AgentPolicy, Profile, Signed, ToolPolicy, Verified
from callgate.agents.proofs import SIGNATURE_CHALLENGE, attributed
from callgate.agents.stage import AgentDecision, refusal
from callgate.agents.storage import NonceStore
from callgate.agents.tokens import Bearer
from callgate.agents.verifying import Attribution, Lookup, Verifier, VerifySettings
from callgate.errors import ConfigError, Reason, Refused, StoreError, place
from callgate.gate import Caller, Headers
from callgate.jsonrpc import TOOLS_CALL, Batch, Limits, parse, tool_call

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
    nonces: NonceStore | None = None
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


def settled(options: VerifyOptions, *, tool_rules: bool, production: bool) -> VerifySettings:
    """What is asked of a signature, with what follows from the rest; raises ConfigError on a contradiction."""
    if tool_rules and options.content_digest == "optional":
        raise ConfigError(
            "rules for tools need the body bound to its signature, and content_digest is set to optional",
            advice='Leave content_digest out, or set it to "required".',
        )
    if options.nonces is None and options.nonce == "required":
        raise ConfigError("nonces are required, and there is no place to remember them", advice="Give `nonces`.")
    return VerifySettings(
        profile=options.profile,
        max_window=options.max_window_seconds,
        skew=options.skew_seconds,
        content_digest="required" if tool_rules else options.content_digest or "optional",
        nonce=options.nonce or "required",
        rsa_pss_sha256=options.rsa_pss_sha256,
        kid_fallback=options.sources.kid_fallback,
        allow_test_keys=options.allow_test_keys,
        test_key=None if options.test_public_key is None else _test_key(options.test_public_key),
        plain_http=options.sources.reach.plain_http or options.sources.self_origin.startswith("http:"),
        production=production,
    )


def by_environment(name: str = "CALLGATE_BLOCK_ALL", environ: Mapping[str, str] = os.environ) -> Callable[[], bool]:
    """A kill switch that is looked up anew for each request (WB-089); what is not clearly off is on."""
    return lambda: environ.get(name, "").strip().lower() not in {"", "0", "false", "off", "no"}


def directories(options: VerifyOptions) -> Directories:
    """The directories of the options; its owner closes it."""
    by_kid = options.sources.kid_fallback or options.profile == "legacy"
    return Directories(msgspec.structs.replace(options.sources, kid_fallback=by_kid), clock=options.now)


def _test_key(given: TestKey) -> PublicKey:
    x = given.base64.replace("+", "-").replace("/", "_").rstrip("=")
    try:
        return PublicKey.read({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": given.keyid}, "test")
    except Refused as refused:
        raise ConfigError(f"test_public_key: {refused.message}", advice="Give the 32 bytes in base64.") from None


MAX_CALLS: Final = 100
# The tools that a body calls: a name, several, or None where it calls none.
ExtractTools: TypeAlias = Callable[[bytes], str | Sequence[str] | None]

_LIMITS: Final = Limits(batch=MAX_CALLS)


def called_tools(body: bytes) -> tuple[str, ...]:
    """The tools of a JSON-RPC message or batch, each element on its own (WB-041, WB-043); raises BadMessage.

    What cannot be read as one message for everybody is refused: a rule for tools would prove nothing about it.
    """
    if not body:
        return ()
    read = parse(body, _LIMITS)
    messages = read.messages if isinstance(read, Batch) else (read,)
    return tuple(tool_call(message).name for message in messages if message.method == TOOLS_CALL)


log = logging.getLogger("callgate.agents")

_SIGNED: Final = frozenset({b"signature", b"signature-input"})
_MAX_CREDENTIAL: Final = 16 * 1024 + 16

Switch: TypeAlias = bool | Callable[[], bool]
_VERIFY: Final = VerifyOptions()
_NO_KYA: Final = KyaPolicy()


class Authenticator:
    """Decides about requests; see the module.

    Keys come from `keys`, or from the sources that `verify` names. With `signatures` off only tokens and API keys
    count.
    """

    def __init__(
        self,
        keys: Lookup | None = None,
        *,
        verify: VerifyOptions = _VERIFY,
        directory: AgentDirectory | None = None,
        block_all: Switch = False,
        default_policy: ToolPolicy | None = None,
        agents: Iterable[AgentPolicy] = (),
        servers: Mapping[str, ToolPolicy] = MappingProxyType({}),
        tool_limits: Iterable[ToolLimit] = (),
        extract_tools: ExtractTools = called_tools,
        rate_limiter: Limiter | None = None,
        kya: KyaPolicy = _NO_KYA,
        bearer: Bearer | None = None,
        api_keys: ApiKeys | None = None,
        signatures: bool = True,
        production: bool = False,
    ) -> None:
        self._acl = Acl(agents, default=default_policy, servers=servers, tool_limits=tool_limits)
        if not signatures and bearer is None and api_keys is None:
            raise ConfigError("there is no way to know who calls", advice="Accept signatures, tokens or API keys.")
        _check_rules(self._acl, listed=directory is not None or not signatures, counted=rate_limiter is not None)
        self._verifier: Verifier | None = None
        self._own: Directories | None = None
        if signatures:
            settings = settled(verify, tool_rules=self._acl.requires_digest, production=production)
            if keys is None:
                self._own = directories(verify)
                keys = self._own.key
            self._verifier = Verifier(settings, keys, verify.nonces, verify.now)
        self._directory = directory
        self._block_all = block_all
        self._extract = extract_tools
        self._limiter = rate_limiter
        self._kya = kya
        self._bearer = bearer
        self._api_keys = api_keys
        # What is for us goes no further: not a token for our audience either (MCP authorization), whoever signed.
        used = {b"authorization"} if bearer is not None or api_keys is not None else set()
        self._used = frozenset(used if kya.mode == "off" else {*used, kya.header.lower()})

    @property
    def acl(self) -> Acl:
        return self._acl

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()

    async def authorize(self, request: Signed, *, server: str = "") -> AgentDecision:
        """Whether the request goes on, and as whose."""
        return await self._concluded(_SoFar(request, server), self._decide)

    async def identify(self, request: Signed) -> AgentDecision:
        """Only who calls, for whoever asks `permit` about each call once it is read."""
        return await self._concluded(_SoFar(request, ""), self._identify)

    async def permit(self, caller: Caller, tools: Sequence[str], server: str = "") -> Headers:
        """Rules and limits, for all these calls or none; answers with the limits' headers. Raises Refused."""
        self._check_switch()
        self._acl.check(caller.id, tools, server)
        headers: Headers = ()
        if self._limiter is not None:
            # Each call of a batch counts, and a request that calls nothing counts once.
            for tool in tools or ("",):
                allowance = await self._limiter.take(account_of(caller), self._acl.limits(caller.id, tool, server))
                headers = allowance.answering
                if not allowance.ok:
                    raise OverBudget(allowance.refusal(), headers)
        return headers

    async def attested(self, request: Signed, caller: Caller) -> Caller:
        """The caller with what a KYA token says of it, where one is asked for; raises Refused."""
        found = await attest(self._kya, request.headers, caller)
        if found is None:
            return caller
        claims = {**caller.claims, "kya": found.claims}
        return msgspec.structs.replace(caller, principal=found.principal, claims=claims)

    async def _concluded(self, so_far: _SoFar, check: Callable[[_SoFar], Awaitable[object]]) -> AgentDecision:
        try:
            await check(so_far)
        except OverBudget as limited:
            so_far.headers = limited.headers
            return self._refusal(limited, so_far)
        except Refused as refused:
            return self._refusal(refused, so_far)
        except StoreError as error:
            log.error("store failed", extra={"fields": {"error": place(error)}})
            return self._refusal(Refused(Reason.STORE_UNAVAILABLE), so_far)
        except Exception as error:  # noqa: BLE001 - fail closed: what nobody thought of is refused, never a pass
            log.error("check failed", extra={"fields": {"error": place(error)}})
            return self._refusal(Refused(Reason.CHECK_FAILED), so_far)
        return AgentDecision(
            ok=True,
            caller=so_far.caller,
            info=so_far.verified,
            tools=so_far.tools,
            request=so_far.request,
            headers=so_far.headers,
            used=self._used,
        )

    async def _decide(self, so_far: _SoFar) -> None:
        # Without a rule that looks at tools a body may be anything; with a limit, each call in it counts.
        so_far.reads = self._acl.requires_digest or self._limiter is not None
        caller = await self._identify(so_far)
        self._check_rules(caller, so_far)
        so_far.headers = await self.permit(caller, so_far.tools, so_far.server)
        so_far.caller = await self.attested(so_far.request, caller)
        # It may have been turned while we waited for a directory or the store.
        self._check_switch()

    def _check_switch(self) -> None:
        blocked = self._block_all() if callable(self._block_all) else self._block_all
        # Anything but a clear no is a yes.
        if blocked is not False:
            raise Refused(Reason.BLOCKED_BY_POLICY)

    async def _identify(self, so_far: _SoFar) -> Caller:
        self._check_switch()
        so_far.caller = await self._caller(so_far)
        return so_far.caller

    async def _caller(self, so_far: _SoFar) -> Caller:
        """Who calls. A request with a signature stands or falls with it, whatever else it carries."""
        headers = so_far.request.headers
        if self._verifier is not None and any(name in _SIGNED for name, _ in headers):
            return await self._signed(self._verifier, so_far)
        if self._bearer is None and self._api_keys is None:
            raise Refused(Reason.MISSING_SIGNATURE_HEADERS)
        token = _bearer_token(headers)
        if self._api_keys is not None and token.startswith(PREFIX):
            return await self._api_keys.verify(token)
        if self._bearer is None:
            raise Refused(Reason.CREDENTIALS_INVALID, "this is no API key of a gateway")
        return await self._bearer.verify(token)

    async def _signed(self, verifier: Verifier, so_far: _SoFar) -> Caller:
        async def attribute(verified: Verified) -> Attribution:
            so_far.verified = verified
            found = await self._directory.agent(verified) if self._directory is not None else None
            if self._directory is not None and (found is None or not found.agent):
                raise Refused(Reason.AGENT_NOT_IN_DIRECTORY)
            caller = attributed(verified, found)
            return Attribution(caller, self._denied(caller, so_far))

        so_far.verified, whose, _ = await verifier.attribute(so_far.request, attribute)
        return whose.caller

    def _denied(self, caller: Caller, so_far: _SoFar) -> bool:
        """Whether rules say no, whatever else is so: then nothing has to be remembered of the request."""
        try:
            self._check_rules(caller, so_far)
        except Refused:
            return True
        return False

    def _check_rules(self, caller: Caller, so_far: _SoFar) -> None:
        self._acl.check(caller.id, (), so_far.server)
        if so_far.reads:
            if not so_far.tools:
                so_far.tools = _bounded(self._extract(so_far.request.body))
            self._acl.check(caller.id, so_far.tools, so_far.server)

    def _refusal(self, refused: Refused, so_far: _SoFar) -> AgentDecision:
        headers = so_far.headers
        if self._bearer is not None and refused.reason in _CHALLENGED:
            headers = (*headers, (b"www-authenticate", self._bearer.challenge(refused).encode()))
        if self._verifier is not None and refused.status == Reason.CREDENTIALS_REQUIRED.status:
            accepted = (b"accept-signature", self._verifier.accepted.encode())
            headers = (*headers, (b"www-authenticate", SIGNATURE_CHALLENGE), accepted)
        return refusal(refused, headers=headers, caller=so_far.caller, info=so_far.verified, tools=so_far.tools)


_CHALLENGED: Final = frozenset({Reason.CREDENTIALS_REQUIRED, Reason.CREDENTIALS_INVALID})


class _SoFar:
    """What is known of a request on its way through."""

    def __init__(self, request: Signed, server: str) -> None:
        self.request = request
        self.server = server
        self.verified: Verified | None = None
        self.caller: Caller | None = None
        # Whether rules look into the body, and the tools that it calls.
        self.reads = False
        self.tools: tuple[str, ...] = ()
        self.headers: Headers = ()


def _check_rules(acl: Acl, *, listed: bool, counted: bool) -> None:
    if acl.entries and not listed:
        raise ConfigError(
            "there are rules for agents, and no directory that says which key is whose",
            advice="Give `directory`, or write the rules as the default policy.",
        )
    if acl.counts and not counted:
        raise ConfigError("there are rate limits, and nothing that counts", advice="Give `rate_limiter`.")


async def verified(verifier: Verifier, request: Signed) -> AgentDecision:
    """Only the signature, for whoever brings a policy of their own (WB-025)."""
    try:
        info = await verifier.verify(request)
    except Refused as refused:
        return refusal(refused)
    except StoreError:
        return refusal(Refused(Reason.STORE_UNAVAILABLE))
    caller = attributed(info, None)
    return AgentDecision(ok=True, caller=caller, info=info, request=request)


def _bearer_token(headers: Headers) -> str:
    values = [value for name, value in headers if name == b"authorization"]
    if not values:
        raise Refused(Reason.CREDENTIALS_REQUIRED)
    scheme, _, token = values[0].strip().partition(b" ")
    if len(values) > 1 or len(values[0]) > _MAX_CREDENTIAL or not values[0].isascii():
        raise Refused(Reason.CREDENTIALS_INVALID, "Authorization has to be there once, and short")
    if scheme.lower() != b"bearer" or not token.strip():
        raise Refused(Reason.CREDENTIALS_REQUIRED, "Authorization carries no bearer token")
    return token.strip().decode()


def _bounded(tools: Any) -> tuple[str, ...]:
    """What an extractor found, whoever wrote it."""
    found = () if tools is None else (tools,) if isinstance(tools, str) else tuple(tools)
    if len(found) > MAX_CALLS or not all(isinstance(one, str) for one in found):
        raise Refused(Reason.BATCH_TOO_LARGE)
    return found
