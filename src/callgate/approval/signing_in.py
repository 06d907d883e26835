"""The console's session is opened by a passkey too; a session reads and refuses, but never approves or enrols."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from callgate.approval.action import action_hash
from callgate.approval.asking import PAGE_BOUNDS
from callgate.approval.ceremony import Ceremony, Issued
from callgate.approval.encoding import to_base64url
from callgate.approval.enrolment import Enrolment
from callgate.approval.model import Challenge, Credential, Policy, Session
from callgate.approval.verify import Verified
from callgate.errors import Reason, Refused

_SIGN_IN: Final = "console/sign-in"
_DEVICE: Final = "console/add-device"
_NOTHING: Final = b"{}"
_ANY: Final = Policy(authenticator_class="platform")
_SECRET_CHARS: Final = 128


def session_id(secret: str) -> bytes:
    return hashlib.sha256(b"callgate session\0" + secret.encode("utf-8", "surrogatepass")).digest()


class SigningIn(Ceremony, Enrolment):
    """Sign in, sign out, and vouch for a further device with a passkey."""

    async def begin_sign_in(self, user: str | None = None) -> Issued:
        """A challenge to sign in with; without a name, for a passkey that knows whose it is."""
        stored = list(await self.shelf.credentials(user)) if user else []
        # In nobody's name: whoever asks for these must not use up what the person may have open.
        challenge = self._console_challenge("", _SIGN_IN, "Sign in to Callgate", stored)
        return await self._issue(challenge, stored, PAGE_BOUNDS)

    async def finish_sign_in(self, evidence: object) -> tuple[Session, str]:
        """The session, and the secret that the browser keeps of it."""
        try:
            verified = await self._verify(evidence, _SIGN_IN, _SIGN_IN, _ANY, None)
            await self.shelf.use(verified.use)
        except Refused as refused:
            raise Refused(Reason.SIGN_IN_FAILED) from refused
        return await self.session_for(verified.credential)

    async def session_for(self, credential: Credential) -> tuple[Session, str]:
        """Sign someone in who has just shown this passkey: by signing with it, or by enrolling it."""
        now, secret = self.now(), to_base64url(self._random(32))
        session = Session(
            id=session_id(secret),
            user=credential.user,
            credential=credential.id,
            csrf=to_base64url(self._random(18)),
            created_at=now,
            expires_at=now + self.settings.session_ms,
        )
        await self.shelf.add_session(session)
        return session, secret

    async def session(self, secret: str) -> Session | None:
        if not secret or len(secret) > _SECRET_CHARS:
            return None
        return await self.shelf.session(session_id(secret), self.now())

    async def sign_out(self, secret: str) -> None:
        await self.shelf.end_session(session_id(secret[:_SECRET_CHARS]))

    async def begin_device(self, user: str) -> Issued:
        """A challenge that lets a passkey vouch for a further device of the same person."""
        stored = await self.eligible(user, _ANY)
        text = f"Add another passkey for {user}"
        return await self._issue(self._console_challenge(user, _DEVICE, text, stored), stored, PAGE_BOUNDS)

    async def finish_device(self, user: str, evidence: object) -> str:
        """A ticket for one enrolment, for a signature of a passkey that this person has."""
        verified: Verified = await self._verify(evidence, _DEVICE, _DEVICE, _ANY, None)
        if verified.credential.user != user:
            raise self._refusal(Reason.UNKNOWN_CREDENTIAL)
        await self.shelf.use(verified.use)
        return await self.ticket(user, by=user, purpose="device")

    def _console_challenge(self, user: str, tool: str, text: str, stored: list[Credential]) -> Challenge:
        action = action_hash(tool, _NOTHING, self.party.id)
        challenge = self._new_challenge(
            user=user,
            server="callgate",
            tool=tool,
            canonical=_NOTHING,
            eligible=stored,
            text=text,
            action=action,
            request=tool,
        )
        lifetime = max(self.settings.challenge_ms, 120_000)
        return msgspec.structs.replace(challenge, expires_at=challenge.created_at + lifetime)
