"""Verified approval as the gateway, the console, the command line and the server library use it."""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property
from typing import Final

import msgspec

from callgate.approval.action import action_hash, to_base64url
from callgate.approval.ceremony import PAGE_BOUNDS, Ceremony, IssuedChallenge
from callgate.approval.evidence import VerifiedCall
from callgate.approval.model import ApprovalPolicy, Challenge, ConsoleSession, Credential
from callgate.approval.people import Enrolment
from callgate.canonical import canonical
from callgate.errors import Reason, Refused

# Lengths of ids and ways to be reached, as computers, phones and security keys have them.
_KINDS: Final = (
    (32, ("internal",)),
    (20, ("hybrid", "internal")),
    (16, ("hybrid", "internal")),
    (32, ("usb",)),
    (48, ("nfc", "usb")),
    (64, ("usb",)),
)


class Decoys:
    """The same name gets the same answer under one key; without the key nobody can tell that it is made up."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> list[Credential]:
        """One passkey, of which nothing but id and transports is ever looked at; it is stored nowhere."""
        length, transports = _KINDS[self._digest(b"kind", name)[0] % len(_KINDS)]
        made_up = Credential(
            id=to_base64url(self._digest(b"id", name)[:length]),
            user="",
            handle=b"",
            public_key=b"",
            counter=0,
            transports=transports,
            name="",
            aaguid="",
            attestation="none",
            backup_eligible=False,
            backed_up=False,
            created_at=0,
        )
        return [made_up]

    def _digest(self, what: bytes, name: str) -> bytes:
        return hmac.digest(self._key, what + b"\0" + name.encode("utf-8", "surrogatepass"), hashlib.sha512)


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


class Approvals(Ceremony, Enrolment):
    """People and passkeys, challenges and their verification, requests on the page, sessions of the console."""

    @cached_property
    def _decoys(self) -> Decoys:
        return Decoys(self._random(32))

    async def begin_sign_in(self, user: str | None = None) -> IssuedChallenge:
        """A challenge to sign in with; without a name, for a passkey that knows whose it is.

        Who has no passkey gets a made-up one: the answer does not tell who is known here.
        """
        stored = (list(await self.shelf.credentials(user)) or self._decoys.of(user)) if user else []
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

    async def begin_device(self, user: str) -> IssuedChallenge:
        """A challenge that lets a passkey vouch for a further device of the same person."""
        return await self._begin_action(user, _DEVICE, _NOTHING, f"Add another passkey for {user}")

    async def finish_device(self, user: str, evidence: object) -> str:
        """A ticket for one enrolment, for a signature of a passkey that this person has."""
        await self._finish_action(user, _DEVICE, _NOTHING, evidence)
        return await self.ticket(user, by=user, purpose="device")

    async def begin_revocation(self, user: str, credential_id: str) -> IssuedChallenge:
        """A challenge to revoke this passkey and no other; any passkey of the person may sign it, this one too."""
        held = await self._held(user, credential_id)
        text = f"Revoke the passkey “{held.name}” ({held.id[:_ID_CHARS_SHOWN]}…) of {user}"
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
