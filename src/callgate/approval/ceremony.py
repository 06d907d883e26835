"""The ceremony of a call (SEP-2672 §4.4.3 and §4.8): a challenge over exactly this call, and its verification."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from callgate.approval.action import action_hash, check_tool_name, to_base64url, to_iso
from callgate.approval.base import Base
from callgate.approval.display import Describe, display_text
from callgate.approval.evidence import (
    VerifiedCall,
    check_action,
    check_credential,
    check_signature,
    check_state,
    facts_of,
    read_evidence,
)
from callgate.approval.model import (
    ApprovalPolicy,
    Challenge,
    ChallengeUse,
    Credential,
    Gated,
    GrantUse,
    Request,
    reaches,
)
from callgate.approval.reach import how_to_add, kind_of
from callgate.approval.schema import check_arguments
from callgate.approval.storage import ApprovalBounds
from callgate.errors import Reason, Refused

_NONCE: Final = 32
_ID: Final = 18


class IssuedChallenge(msgspec.Struct, frozen=True):
    """A challenge, and what goes over the wire of it."""

    challenge: Challenge
    result: dict[str, Any]


class Ceremony(Base):
    """Issues challenges and verifies what comes back."""

    async def ask(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        user: str,
        *,
        caller: str,
        agent: dict[str, str],
        why: str = "",
        page: str = "",
        describe: Describe | None = None,
    ) -> Request:
        """Open a request for this call, or find the open one for the same call of the same caller."""
        check_tool_name(gated.tool)
        self.check_call(gated, arguments, canonical)
        await self.approving(user, gated.policy)
        now = self.now()
        request = Request(
            id=to_base64url(self._random(_ID)),
            user=user,
            server=gated.server,
            tool=gated.tool,
            caller=caller,
            agent=agent,
            canonical=canonical,
            action_hash=action_hash_of(gated, canonical),
            display_text=display_text(gated.tool, arguments, title=gated.title, describe=describe),
            policy=gated.policy,
            why=why if len(why) <= WHY_CHARS else f"{why[: WHY_CHARS - 1]}…",
            version=gated.version,
            created_at=now,
            expires_at=now + self.settings.request_ms,
            page=page,
        )
        detail = {"request": request.id, "user": user, "server": gated.server, "tool": gated.tool}
        return await self.shelf.open_request(
            request, self.settings.bounds, self._witness("approval.ask", caller, detail)
        )

    async def request(self, request_id: str) -> Request | None:
        return await self.shelf.request(request_id)

    async def grant(self, gated: Gated, canonical: bytes, *, caller: str) -> Request | None:
        """An approval that lets exactly this call of this caller through, once."""
        action = action_hash_of(gated, canonical)
        return await self.shelf.find_grant(caller, gated.server, gated.tool, action, self.now())

    async def unheard_refusal(self, gated: Gated, canonical: bytes, *, caller: str, call: str) -> Request | None:
        """A refusal of exactly this call that nobody waited for any more: this call hears of it, and no other."""
        action = action_hash_of(gated, canonical)
        return await self.shelf.hear_refusal(caller, gated.server, gated.tool, action, call=call, now=self.now())

    def grant_use(self, request: Request, call: str) -> GrantUse:
        return GrantUse(request.id, call, self.now())

    def expired(self, request: Request) -> bool:
        return self.now() >= request.expires_at

    async def page_challenge(self, request: Request) -> IssuedChallenge:
        """A challenge over the request's own action hash, for the person it belongs to."""
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if self.expired(request):
            raise Refused(Reason.APPROVAL_EXPIRED)
        eligible = await self.approving(request.user, request.policy)
        challenge = self._new_challenge(
            user=request.user,
            server=request.server,
            tool=request.tool,
            canonical=request.canonical,
            eligible=eligible,
            text=request.display_text,
            action=request.action_hash,
            request=request.id,
        )
        challenge = msgspec.structs.replace(challenge, expires_at=min(challenge.expires_at, request.expires_at))
        return await self._issue(challenge, eligible, PAGE_BOUNDS)

    async def approve(self, request_id: str, evidence: object, *, by: str) -> Request:
        """Take a person's signature over a request's challenge; its call may pass, once."""
        request = await self.shelf.request(request_id)
        if request is None:
            raise Refused(Reason.CHALLENGE_UNKNOWN)
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        try:
            verified = await self._verify(evidence, request.id, request.tool, request.policy, request.action_hash)
        except Refused:
            # Another page may have been faster, with a challenge of its own.
            now_held = await self.shelf.request(request_id)
            if now_held is not None and now_held.state != "waiting":
                raise Refused(Reason.APPROVAL_DECIDED) from None
            raise
        facts = verified.facts | {"request": request.id}
        detail = {"request": request.id, "user": request.user, "credential": verified.credential.id}
        witness = self._witness("approval.approve", by, detail)
        return await self.shelf.approve_request(request.id, verified.use, facts, by, witness)

    async def refuse(self, request_id: str, *, by: str, note: str = "") -> Request:
        """Say no; the note reaches whoever called."""
        text = "".join(char if char.isprintable() or char == "\n" else " " for char in note)[:_NOTE_CHARS].strip()
        witness = self._witness("approval.refuse", by, {"request": request_id, "note": text})
        return await self.shelf.refuse_request(request_id, by, text, self.now(), witness)

    async def challenge(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        user: str | None,
        *,
        describe: Describe | None = None,
    ) -> IssuedChallenge:
        """`approval/challenge/create`; `canonical` is the RFC 8785 form of the arguments as they were received."""
        self.check_call(gated, arguments, canonical)
        eligible = await self.approving(user, gated.policy)
        text = display_text(gated.tool, arguments, title=gated.title, describe=describe)
        challenge = self._new_challenge(
            user=user or "",
            server=gated.server,
            tool=gated.tool,
            canonical=canonical,
            eligible=eligible,
            text=text,
            action=action_hash_of(gated, canonical),
        )
        return await self._issue(challenge, eligible, self.settings.bounds)

    async def verify(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        evidence: object,
        *,
        user: str | None = None,
    ) -> VerifiedCall:
        """Steps 1 to 12 for a call; Refused with the reason of the first that fails. Nothing is used up yet.

        With `user` only challenges of this person are known: one person's approval is no use in another's session.
        """
        action = action_hash_of(gated, canonical)
        verified = await self._verify(evidence, None, gated.tool, gated.policy, action, user=user)
        check_arguments(gated.input_schema, arguments)
        facts = verified.facts | {"server_id": gated.server_id}
        return msgspec.structs.replace(verified, facts=facts)

    def check_call(self, gated: Gated, arguments: dict[str, Any], canonical: bytes) -> None:
        """What has to hold before a person is bothered with a call."""
        check_tool_name(gated.tool)
        if len(canonical) > self.settings.argument_bytes:
            most = self.settings.argument_bytes
            raise Refused(
                Reason.ARGUMENTS_INVALID,
                f"the arguments have {len(canonical)} bytes; a person can be asked to approve {most}",
                advice="Send less at once, or raise approval.argument_bytes.",
            )
        check_arguments(gated.input_schema, arguments)

    async def approving(self, user: str | None, policy: ApprovalPolicy) -> list[Credential]:
        """The passkeys of this person for a call; Refused(NO_ELIGIBLE_CREDENTIAL) for who may only look, too."""
        found = await self.eligible(user, policy)
        person = await self.shelf.user(user) if user else None
        if person is None or not reaches(person.role, "approver"):
            raise self._refusal(
                Reason.NO_ELIGIBLE_CREDENTIAL,
                f"{user} is a viewer, who may look and not approve",
                f"An operator changes that with `callgate users role {user} approver`.",
            )
        return found

    async def eligible(self, user: str | None, policy: ApprovalPolicy) -> list[Credential]:
        """The passkeys of this person that the tool takes (§4.7); Refused(NO_ELIGIBLE_CREDENTIAL) if there are none."""
        stored = await self.shelf.credentials(user) if user else ()
        found = [one for one in stored if policy.takes(one)]
        if not found:
            raise self._none(user, policy, any_kind=bool(stored))
        return found

    def _none(self, user: str | None, policy: ApprovalPolicy, *, any_kind: bool) -> Refused:
        """What the person lacks, so that they do not enrol the same kind again."""
        if not user:
            return self._refusal(Reason.NO_ELIGIBLE_CREDENTIAL)
        if not any_kind:
            detail = f"{user} has no passkey"
            return self._refusal(Reason.NO_ELIGIBLE_CREDENTIAL, detail, f"Add one with `callgate enroll {user}`.")
        return self._refusal(
            Reason.NO_ELIGIBLE_CREDENTIAL,
            f"the passkeys of {user} are not of the kind that this tool demands: {kind_of(policy)}",
            how_to_add(policy, f"`callgate enroll {user}`"),
        )

    async def _verify(
        self,
        evidence: object,
        request: str | None,
        tool: str,
        policy: ApprovalPolicy,
        action: bytes | None,
        *,
        user: str | None = None,
    ) -> VerifiedCall:
        try:
            given = read_evidence(evidence, self.methods)
            challenge, credential = await self.shelf.look_up(given.challenge_id, given.proof.id)
            now = self.now()
            if challenge is not None and user is not None and challenge.user != user:
                challenge = None
            challenge = check_state(challenge, request, tool, now)
            credential = check_credential(credential, challenge, policy)
            signed = check_signature(given, challenge, credential, self.party)
            if action is not None:
                check_action(challenge, action)
        except Refused as refused:
            raise self.localise(refused) from refused.__cause__
        use = ChallengeUse(challenge.id, credential.id, signed.counter, self.now(), signed.backed_up)
        facts = facts_of(given, challenge, credential, signed) | {"rp_id": self.party.id}
        return VerifiedCall(challenge, credential, use, facts)

    def _new_challenge(
        self,
        *,
        user: str,
        server: str,
        tool: str,
        canonical: bytes,
        eligible: list[Credential],
        text: str,
        action: bytes,
        request: str | None = None,
    ) -> Challenge:
        now = self.now()
        return Challenge(
            id=to_base64url(self._random(_ID)),
            user=user,
            server=server,
            tool=tool,
            canonical=canonical,
            nonce=self._random(_NONCE),
            action_hash=action,
            allowed=tuple(one.id for one in eligible),
            display_text=text,
            created_at=now,
            expires_at=now + self.settings.challenge_ms,
            request=request,
            origin="" if request is None else self.page_origin,
        )

    async def _issue(self, challenge: Challenge, eligible: list[Credential], bounds: ApprovalBounds) -> IssuedChallenge:
        try:
            await self.shelf.add_challenge(challenge, bounds)
        except Refused as refused:
            raise self.localise(refused) from None
        return IssuedChallenge(challenge, self._result(challenge, eligible))

    def _result(self, challenge: Challenge, eligible: list[Credential]) -> dict[str, Any]:
        return {
            "challengeId": challenge.id,
            "displayText": challenge.display_text,
            "expiresAt": to_iso(challenge.expires_at),
            "requestOptions": {
                "challenge": to_base64url(challenge.message),
                "rpId": self.party.id,
                "allowCredentials": [named(one) for one in eligible],
                "userVerification": "required",
                "timeout": challenge.expires_at - challenge.created_at,
            },
        }


def named(credential: Credential) -> dict[str, Any]:
    """A credential as `allowCredentials` and `excludeCredentials` name it."""
    return {"type": "public-key", "id": credential.id, "transports": list(credential.transports)}


def action_hash_of(gated: Gated, canonical: bytes) -> bytes:
    return action_hash(gated.tool, canonical, gated.server_id)


_NOTE_CHARS: Final = 500
# Why a person is asked: a rule, its sentence, and a line on each argument.
WHY_CHARS: Final = 4_000
# A person on our own page is not held up by what agents have opened in their name.
PAGE_BOUNDS: Final = ApprovalBounds(per_user=1_000, in_all=1_000_000)
