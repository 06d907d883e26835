"""Ways that a configuration takes as proof of who calls; loaded only where one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import urlsplit

import msgspec

from callgate.agents.apikeys import ApiKeys
from callgate.agents.directories.lookup import BY_KEY, NAMELESS, AgentIdentity, Directories
from callgate.agents.kya import KyaPolicy, attest
from callgate.agents.model import Signed, Verified
from callgate.agents.tokens import Bearer, metadata_url
from callgate.agents.verifying import Attribution, Verifier
from callgate.errors import Reason, Refused
from callgate.gate import Caller, Headers, Use

_REALM: Final = 'Bearer realm="callgate"'
SIGNATURE_CHALLENGE: Final = b'Signature realm="callgate"'


class Proofs:
    """All ways that are open, each where it is. `close` ends what is being fetched."""

    def __init__(
        self,
        *,
        directories: Directories | None,
        strict: Verifier | None,
        lenient: Verifier | None,
        bearer: Bearer | None,
        api_keys: ApiKeys | None,
        kya: KyaPolicy,
    ) -> None:
        self.directories = directories
        # Of requests with a body, and of those without one.
        self._strict = strict
        self._lenient = lenient
        self._bearer = bearer
        self._api_keys = api_keys
        self._kya = kya
        self.kya_header = kya.header

    async def signed(
        self, request: Signed, permitted: Callable[[str], bool], *, body: bool, later: bool = False
    ) -> tuple[Caller, bool, tuple[Use, ...]]:
        """Who signed a request, whether rules refuse it, and what of it is used up `later`, with a decision.

        Without a body of its own it has nothing that a digest could bind.

        `permitted` tells whether rules let an agent do this; where not, its nonce is not stored.
        """
        verifier = self._strict if body else self._lenient
        assert verifier is not None
        assert self.directories is not None
        directories = self.directories

        async def attribute(verified: Verified) -> Attribution:
            found = await directories.agent(verified)
            if found is None:
                raise Refused(Reason.AGENT_NOT_IN_DIRECTORY)
            caller = attributed(verified, found)
            return Attribution(caller, denied=not permitted(caller.id))

        _, whose, uses = await verifier.attribute(request, attribute, later=later)
        return whose.caller, whose.denied, uses

    async def token(self, text: str, resource: str = "") -> Caller:
        """Whose token this is."""
        if self._bearer is None:
            raise Refused(Reason.CREDENTIALS_INVALID, "this is no API key of this gateway")
        return await self._bearer.verify(text, resource)

    async def api_key(self, text: str) -> Caller:
        """Whose key this is."""
        assert self._api_keys is not None
        return await self._api_keys.verify(text)

    async def attested(self, headers: Headers, caller: Caller) -> Caller:
        """The same caller, with whom it acts for by its KYA token; raises Refused."""
        found = await attest(self._kya, headers, caller)
        if found is None:
            return caller
        claims = {**caller.claims, "kya": found.claims}
        return msgspec.structs.replace(caller, principal=found.principal, claims=claims)

    def challenges(self, refused: Refused, resource: str = "") -> Headers:
        """What a refusal says of how to get in: a challenge for every way that is open (RFC 9110 §11.6.1), and which
        signature is taken (RFC 9421 §5.1)."""
        found: list[tuple[bytes, bytes]] = []
        unknown = refused.status == Reason.CREDENTIALS_REQUIRED.status
        if self._bearer is not None:
            found.append((b"www-authenticate", self._bearer.challenge(refused, resource).encode()))
        elif self._api_keys is not None and unknown:
            wrong = ', error="invalid_token"' if refused.reason is Reason.CREDENTIALS_INVALID else ""
            found.append((b"www-authenticate", f"{_REALM}{wrong}".encode()))
        if self._strict is not None and unknown:
            found.append((b"www-authenticate", SIGNATURE_CHALLENGE))
            found.append((b"accept-signature", self._strict.accepted.encode()))
        return tuple(found)

    def documents(self, resources: Collection[str] = ()) -> dict[str, bytes]:
        """What is published at well-known paths: how to get a token (RFC 9728), for all of us and for each resource."""
        if self._bearer is None:
            return {}
        found = {self._bearer.metadata_path: msgspec.json.encode(dict(self._bearer.metadata()))}
        for one in resources:
            found[urlsplit(metadata_url(one)).path] = msgspec.json.encode(dict(self._bearer.metadata(one)))
        return found

    async def close(self) -> None:
        if self.directories is not None:
            await self.directories.close()


def attributed(verified: Verified, found: AgentIdentity | None) -> Caller:
    """Who signed; without a directory that says so, whoever has the key."""
    return Caller(
        id=found.agent if found is not None else verified.keyid,
        source="web-bot-auth",
        key=verified.keyid,
        directory=verified.directory,
        name=found.name if found is not None else "",
        digest_verified=verified.digest_verified,
        listed=verified.directory in NAMELESS if found is None else found.by != BY_KEY,
    )
