"""Verified approval as the gateway, the console, the command line and the server library use it.

The ceremony of a call (SEP-2672 §4.4.3 and §4.8) is a challenge over exactly this call, and its verification.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property
from typing import Any, Final

import msgspec

from callgate.approval.action import action_hash, check_tool_name, to_base64url, to_iso
from callgate.approval.delegation import SIGNED_AS, Delegation, GrantTerms, check_terms, hash_of, read_terms, text_of
from callgate.approval.device import AskBody, check_ask
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
    ApprovalBounds,
    ApprovalPolicy,
    Challenge,
    ChallengeUse,
    ConsoleSession,
    Credential,
    Gated,
    GrantUse,
    Request,
    counting,
    people_in,
    reaches,
)
from callgate.approval.overview import how_answered
from callgate.approval.people import Enrolment
from callgate.approval.reach import how_to_add, kind_of
from callgate.approval.schema import check_arguments
from callgate.approval.webauthn import NotVerified
from callgate.canonical import canonical
from callgate.errors import Reason, Refused
from callgate.protocol import DEVICE, WEBAUTHN

_NONCE: Final = 32
_ID: Final = 18
_NOTE_CHARS: Final = 500
# Why a person is asked: a rule, its sentence, and a line on each argument.
WHY_CHARS: Final = 4_000
# A person on our own page is not held up by what agents have opened in their name.
PAGE_BOUNDS: Final = ApprovalBounds(per_user=1_000, in_all=1_000_000)
# Lengths of ids and ways to be reached, as computers, phones and security keys have them.
_KINDS: Final = (
    (32, ("internal",)),
    (20, ("hybrid", "internal")),
    (16, ("hybrid", "internal")),
    (32, ("usb",)),
    (48, ("nfc", "usb")),
    (64, ("usb",)),
)


_SIGN_IN: Final = "console/sign-in"
_DEVICE: Final = "console/add-device"
_REVOKE: Final = "console/revoke-passkey"
_ACT: Final = "console/act/"
_NOTHING: Final = b"{}"
_ANY: Final = ApprovalPolicy(authenticator_class="platform")
_SECRET_CHARS: Final = 128
_ID_CHARS_SHOWN: Final = 8


def session_id(secret: str) -> bytes:
    return hashlib.sha256(b"callgate session\0" + secret.encode("utf-8", "surrogatepass")).digest()


def _naming(credential_id: str) -> bytes:
    return canonical({"credential": credential_id})


def action_hash_of(gated: Gated, canonical: bytes) -> bytes:
    return action_hash(gated.tool, canonical, gated.server_id)


class IssuedChallenge(msgspec.Struct, frozen=True):
    """A challenge, and what goes over the wire of it."""

    challenge: Challenge
    result: dict[str, Any]


class MissingSigners(msgspec.Struct, frozen=True):
    """One demand of a call that several people approve: how many signatures are missing, and who could give them."""

    people: str
    left: int
    could: tuple[str, ...]


class Signers(msgspec.Struct, frozen=True):
    """Who has signed, and when, and how; and what is missing."""

    signed: tuple[tuple[str, int, str], ...]
    missing: tuple[MissingSigners, ...]


class Approvals(Enrolment):
    """People and passkeys, challenges and their verification, requests on the page, sessions of the console."""

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
        if gated.policy.quorums:
            await self._enough(gated.policy)
        else:
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

    async def is_asked(self, request: Request, user: str) -> bool:
        """Whether this person decides on the call, alone or among others."""
        if not request.policy.quorums:
            return request.user == user
        return request.policy.asks((await self.shelf.groups()).get(user, frozenset()))

    async def signers(self, request: Request) -> Signers:
        """Who has signed a call that several people have to approve, and who could."""
        signed = await self.shelf.signatures(request.id)
        able = await self._able(request.policy)
        groups = await self.shelf.groups()
        by = {one.user: groups.get(one.user, frozenset()) for one in signed}
        return Signers(
            signed=tuple((one.user, one.at, how_answered(one.evidence)) for one in signed),
            missing=tuple(
                MissingSigners(
                    people_in(one),
                    max(0, one.approvals - len(counting(one, by))),
                    tuple(name for name in sorted(counting(one, able)) if name not in by),
                )
                for one in request.policy.quorums
            ),
        )

    async def _able(self, policy: ApprovalPolicy) -> dict[str, frozenset[str]]:
        """Everybody who could sign for this policy now, each with their groups."""
        groups = await self.shelf.groups()
        held = {one.user for one in await self.shelf.credentials() if policy.takes(one)}
        people = await self.shelf.users()
        return {
            one.name: groups.get(one.name, frozenset())
            for one in people
            if one.name in held and reaches(one.role, "approver")
        }

    async def _enough(self, policy: ApprovalPolicy) -> None:
        """Refused(NO_ELIGIBLE_CREDENTIAL) where fewer people could sign than have to."""
        able = await self._able(policy)
        for one in policy.quorums:
            found = counting(one, able)
            if len(found) >= one.approvals:
                continue
            passkey = "a passkey" if policy.takes_any else kind_of(policy)
            who = f"only {', '.join(sorted(found))} may and has {passkey}" if found else f"nobody may who has {passkey}"
            advice = "`callgate users list` shows who has a passkey and which role."
            if one.of:
                advice = f"Add somebody with `callgate groups add {one.of[0]} USER`. {advice}"
            raise self._refusal(
                Reason.NO_ELIGIBLE_CREDENTIAL, f"{people_in(one)} have to approve it, and {who}", advice
            )

    async def page_challenge(self, request: Request, user: str | None = None) -> IssuedChallenge:
        """A challenge over the request's own action hash, for the person it belongs to, or for one of several."""
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if self.expired(request):
            raise Refused(Reason.APPROVAL_EXPIRED)
        signer = user or request.user
        if not await self.is_asked(request, signer):
            raise Refused(Reason.NOT_ASKED)
        if request.policy.quorums and signer in {one.user for one in await self.shelf.signatures(request.id)}:
            raise Refused(Reason.APPROVAL_SIGNED)
        eligible = await self.approving(signer, request.policy)
        challenge = self._new_challenge(
            user=signer,
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

    async def device_challenge(self, request: Request, device: Credential) -> IssuedChallenge:
        """The same for a device of somebody who is asked. Who has said yes can still say no with it."""
        # Somebody else's call is as unknown as one that never was.
        if not await self.is_asked(request, device.user):
            raise Refused(Reason.NOT_ASKED)
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if self.expired(request):
            raise Refused(Reason.APPROVAL_EXPIRED)
        if not request.policy.takes(device):
            raise Refused(Reason.UNSUPPORTED_METHOD, "this tool takes no answers of devices", advice="Use a passkey.")
        challenge = self._new_challenge(
            user=device.user,
            server=request.server,
            tool=request.tool,
            canonical=request.canonical,
            eligible=[device],
            text=request.display_text,
            action=request.action_hash,
            request=request.id,
        )
        expires = min(challenge.expires_at, request.expires_at)
        challenge = msgspec.structs.replace(challenge, expires_at=expires, origin="", gateway=await self.gateway_id())
        try:
            await self.shelf.add_challenge(challenge, PAGE_BOUNDS)
        except Refused as refused:
            raise self.localise(refused) from None
        return IssuedChallenge(challenge, {})

    async def asking_device(self, what: str, body: AskBody) -> Credential:
        """The device that asks, once that is verified. `take_ask` has the last word."""
        device = await self.shelf.credential(body.key)
        if device is None or not device.is_device or device.revoked_at is not None:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL, "no such device is enrolled here")
        try:
            check_ask(body, what, await self.gateway_id(), device, self.now())
        except NotVerified as error:
            raise self._refusal(Reason.SIGNATURE_VERIFICATION_FAILED, str(error)) from error
        return device

    async def take_ask(self, device: Credential, body: AskBody) -> None:
        """Each message of a device counts once."""
        await self.shelf.count_ask(device.id, body.time, self.now())

    async def answer(self, request_id: str, evidence: object) -> Request:
        """Take the answer of a device: a yes or a no, in the name of the person whose device it is."""
        try:
            given = read_evidence(evidence, {name: self.methods[name] for name in self.methods if name == DEVICE})
        except Refused as refused:
            raise self.localise(refused) from refused.__cause__
        device = await self.shelf.credential(given.proof.id)
        if device is None or not device.is_device:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL, "no such device is enrolled here")
        return await self.approve(request_id, evidence, by=device.user)

    async def approve(self, request_id: str, evidence: object, *, by: str) -> Request:
        """Take a person's signature over a request's challenge; its call may pass, once. A signed no refuses it."""
        request = await self.shelf.request(request_id)
        if request is None:
            raise Refused(Reason.CHALLENGE_UNKNOWN)
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        try:
            # Of several people each signs for themselves.
            whose = by if request.policy.quorums else None
            verified = await self._verify(
                evidence, request.id, request.tool, request.policy, request.action_hash, user=whose
            )
        except Refused:
            # Another page may have been faster, with a challenge of its own.
            now_held = await self.shelf.request(request_id)
            if now_held is not None and now_held.state != "waiting":
                raise Refused(Reason.APPROVAL_DECIDED) from None
            raise
        facts = verified.facts | {"request": request.id}
        detail = {"request": request.id, "user": verified.credential.user, "credential": verified.credential.id}
        if verified.credential.is_device:
            detail["device"] = verified.credential.name
        if not verified.yes:
            no = self._witness("approval.refuse", by, detail | {"note": ""})
            use = verified.use
            return await self.shelf.refuse_request(request.id, by, "", use.at, no, use=use, evidence=facts)
        witness = self._witness("approval.sign" if request.policy.quorums else "approval.approve", by, detail)
        return await self.shelf.approve_request(request.id, verified.use, facts, by, witness)

    async def refuse(self, request_id: str, *, by: str, note: str = "", even_approved: bool = False) -> Request:
        """Say no; the note reaches whoever called. With `even_approved` also after a yes that no call has used."""
        text = "".join(char if char.isprintable() or char == "\n" else " " for char in note)[:_NOTE_CHARS].strip()
        witness = self._witness("approval.refuse", by, {"request": request_id, "note": text})
        return await self.shelf.refuse_request(request_id, by, text, self.now(), witness, even_approved=even_approved)

    async def challenge(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        user: str | None,
        *,
        describe: Describe | None = None,
        caller: str = "",
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
        challenge = msgspec.structs.replace(challenge, caller=caller)
        return await self._issue(challenge, eligible, self.settings.bounds)

    async def verify(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        evidence: object,
        *,
        user: str | None = None,
        caller: str = "",
    ) -> VerifiedCall:
        """Steps 1 to 12 for a call; Refused with the reason of the first that fails. Nothing is used up yet.

        With `user` only challenges of this person are known: one person's approval is no use in another's session. Nor
        is one that a client asked for in a session that it named, but in that session.
        """
        action = action_hash_of(gated, canonical)
        verified = await self._verify(evidence, None, gated.tool, gated.policy, action, user=user, caller=caller)
        if not verified.yes:
            raise self._refusal(Reason.APPROVAL_REFUSED)
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
        caller: str = "",
    ) -> VerifiedCall:
        try:
            taken = {name: method for name, method in self.methods.items() if name in policy.methods}
            given = read_evidence(evidence, taken)
            challenge, credential = await self.shelf.look_up(given.challenge_id, given.proof.id)
            now = self.now()
            if challenge is not None and user is not None and challenge.user != user:
                challenge = None
            if challenge is not None and challenge.session not in ("", caller.partition("\n")[2]):
                challenge = None
            challenge = check_state(challenge, request, tool, now)
            credential = check_credential(credential, challenge, policy, given.method.keys)
            signed = check_signature(given, challenge, credential, self.party)
            if action is not None:
                check_action(challenge, action)
        except Refused as refused:
            raise self.localise(refused) from refused.__cause__
        use = ChallengeUse(challenge.id, credential.id, signed.counter, self.now(), signed.backed_up)
        facts = facts_of(given, challenge, credential, signed)
        if given.method.keys == WEBAUTHN:
            facts["rp_id"] = self.party.id
        return VerifiedCall(challenge, credential, use, facts, signed.yes)

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
                "allowCredentials": [one.descriptor for one in eligible],
                "userVerification": "required",
                "timeout": challenge.expires_at - challenge.created_at,
            },
        }

    # ---- the console ----

    @cached_property
    def _decoy_key(self) -> bytes:
        return self._random(32)

    def _decoy(self, name: str) -> Credential:
        """A passkey for who has none, stored nowhere. The same name gets the same one; without the key nobody can tell
        that it is made up."""

        def digest(what: bytes) -> bytes:
            text = what + b"\0" + name.encode("utf-8", "surrogatepass")
            return hmac.digest(self._decoy_key, text, hashlib.sha512)

        length, transports = _KINDS[digest(b"kind")[0] % len(_KINDS)]
        return Credential(to_base64url(digest(b"id")[:length]), "", b"", b"", 0, transports)

    async def begin_sign_in(self, user: str | None = None) -> IssuedChallenge:
        """A challenge to sign in with; without a name, for a passkey that knows whose it is.

        Who has no passkey gets a made-up one: the answer does not tell who is known here.
        """
        stored = (list(await self.shelf.credentials(user)) or [self._decoy(user)]) if user else []
        # In nobody's name: whoever asks for these must not use up what the person may have open.
        challenge = self._console_challenge("", _SIGN_IN, _NOTHING, "Sign in to Callgate", stored)
        return await self._issue(challenge, stored, PAGE_BOUNDS)

    async def finish_sign_in(self, evidence: object) -> tuple[ConsoleSession, str]:
        """The session, and the secret that the browser keeps of it."""
        try:
            verified = await self._verify(evidence, _SIGN_IN, _SIGN_IN, _ANY, None)
            await self.shelf.use(verified.use)
        except Refused as refused:
            raise Refused(Reason.SIGN_IN_FAILED) from refused
        return await self.session_for(verified.credential)

    async def session_for(self, credential: Credential) -> tuple[ConsoleSession, str]:
        """Sign someone in who has just shown this passkey: by signing with it, or by enrolling it."""
        now, secret = self.now(), to_base64url(self._random(32))
        session = ConsoleSession(
            id=session_id(secret),
            user=credential.user,
            credential=credential.id,
            csrf=to_base64url(self._random(18)),
            created_at=now,
            expires_at=now + self.settings.session_ms,
        )
        await self.shelf.add_session(session)
        person = await self.user(credential.user)
        return msgspec.structs.replace(session, role=person.role), secret

    async def session(self, secret: str) -> ConsoleSession | None:
        if not secret or len(secret) > _SECRET_CHARS:
            return None
        return await self.shelf.session(session_id(secret), self.now())

    async def sign_out(self, secret: str) -> None:
        await self.shelf.end_session(session_id(secret[:_SECRET_CHARS]))

    # ---- grants ----

    async def begin_grant(self, terms: GrantTerms, policy: ApprovalPolicy) -> IssuedChallenge:
        """A challenge over exactly these terms, for a passkey of the person in them that the tool takes."""
        check_terms(terms, self.now())
        eligible = await self.approving(terms.person, policy)
        form = terms.canonical
        challenge = self._console_challenge(terms.person, SIGNED_AS, form, text_of(terms), eligible)
        challenge = msgspec.structs.replace(challenge, action_hash=hash_of(form, self.party.id))
        return await self._issue(challenge, eligible, PAGE_BOUNDS)

    async def finish_grant(self, user: str, evidence: object, shown: GrantTerms) -> Delegation:
        """The grant that this person has signed: its terms are those that the challenge was made for, and the ones
        that the page says it has shown."""
        verified = await self._verify(evidence, SIGNED_AS, SIGNED_AS, _ANY, None, user=user)
        form = verified.challenge.canonical
        terms = check_terms(read_terms(form), self.now())
        check_action(verified.challenge, hash_of(form, self.party.id))
        if terms != shown:
            raise Refused(Reason.PAGE_OUTDATED, "another grant was signed than the one that was sent")
        if terms.person != user or verified.credential.user != user:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL)
        new = Delegation(terms, verified.credential.id, self.now(), verified.facts)
        detail = {"grant": terms.id, "user": user, "credential": new.credential, "terms": form.decode()}
        await self.shelf.add_delegation(new, verified.use, self._witness("grant.sign", user, detail))
        return new

    async def revoke_grant(self, grant: str, *, by: str) -> None:
        """End a grant: no call passes by it from now on, also none that is being decided."""
        witness = self._witness("grant.revoke", by, {"grant": grant})
        if not await self.shelf.revoke_delegation(grant, self.now(), by, witness):
            raise Refused(Reason.GRANT_ENDED, "there is no such grant, or it was revoked before")

    # ---- acts of the console ----

    async def begin_device(self, user: str) -> IssuedChallenge:
        """A challenge that lets a passkey vouch for a further device of the same person."""
        return await self._begin_action(user, _DEVICE, _NOTHING, f"Add another passkey for {user}")

    async def finish_device(self, user: str, evidence: object) -> str:
        """A ticket for one enrolment, for a signature of a passkey that this person has."""
        verified = await self._finish_action(user, _DEVICE, _NOTHING, evidence)
        return await self.ticket(user, by=user, purpose="device", signed_with=verified.credential.id)

    async def begin_revocation(self, user: str, credential_id: str) -> IssuedChallenge:
        """A challenge to revoke this passkey or device and no other; any passkey of the person may sign it, this one
        too."""
        held = await self._held(user, credential_id)
        text = f"Revoke the {held.what} “{held.name}” ({held.id[:_ID_CHARS_SHOWN]}…) of {user}"
        return await self._begin_action(user, _REVOKE, _naming(held.id), text)

    async def finish_revocation(self, user: str, credential_id: str, evidence: object) -> None:
        """Revoke this passkey, for a signature over exactly that."""
        held = await self._held(user, credential_id)
        verified = await self._finish_action(user, _REVOKE, _naming(held.id), evidence)
        await self.revoke(held.id, by=user, signed_with=verified.credential.id)

    async def begin_act(self, user: str, act: str, body: bytes, text: str) -> IssuedChallenge:
        """A challenge for something else that lasts, such as `switch/off`; `body` is what is sent (RFC 8785)."""
        return await self._begin_action(user, f"{_ACT}{act}", body, text)

    async def finish_act(self, user: str, act: str, body: bytes, evidence: object) -> str:
        """The passkey that signed exactly this; Refused if none of this person's did, just now and for nothing else."""
        witness = {"act": act, "body": hashlib.sha256(body).hexdigest()}
        return (await self._finish_action(user, f"{_ACT}{act}", body, evidence, witness)).credential.id

    async def _held(self, user: str, credential_id: str) -> Credential:
        held = await self.shelf.credential(credential_id)
        if held is None or held.user != user or held.revoked_at is not None:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL)
        return held

    async def _begin_action(self, user: str, tool: str, arguments: bytes, text: str) -> IssuedChallenge:
        stored = await self.eligible(user, _ANY)
        challenge = self._console_challenge(user, tool, arguments, text, stored)
        return await self._issue(challenge, stored, PAGE_BOUNDS)

    async def _finish_action(
        self, user: str, tool: str, arguments: bytes, evidence: object, noted: dict[str, str] | None = None
    ) -> VerifiedCall:
        """Use up the signature of a passkey of this person over this action with these arguments; with `noted`, that
        it was given goes on record in the same transaction."""
        action = action_hash(tool, arguments, self.party.id)
        verified = await self._verify(evidence, tool, tool, _ANY, action)
        if verified.credential.user != user:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL)
        witness = None
        if noted is not None:
            witness = self._witness("console.signed", user, {**noted, "credential": verified.credential.id})
        await self.shelf.use(verified.use, witness)
        return verified

    def _console_challenge(
        self, user: str, tool: str, arguments: bytes, text: str, stored: list[Credential]
    ) -> Challenge:
        challenge = self._new_challenge(
            user=user,
            server="callgate",
            tool=tool,
            canonical=arguments,
            eligible=stored,
            text=text,
            action=action_hash(tool, arguments, self.party.id),
            request=tool,
        )
        lifetime = max(self.settings.challenge_ms, 120_000)
        return msgspec.structs.replace(challenge, expires_at=challenge.created_at + lifetime)
