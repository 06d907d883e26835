"""People, their passkeys (SEP-2672 §4.4.1 and §4.4.2) and their devices: nobody enrols a passkey without a ticket, nor
a device without a passkey."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callgate.approval import device
from callgate.approval.action import to_base64url, to_iso
from callgate.approval.evidence import METHODS, Method
from callgate.approval.model import (
    ApprovalSettings,
    Credential,
    Registration,
    RelyingParty,
    Role,
    Ticket,
    User,
    reaches,
)
from callgate.approval.storage import ApprovalRepository
from callgate.approval.webauthn import (
    ALGORITHMS,
    MalformedResponse,
    NotVerified,
    Registered,
    RegistrationResponse,
    check_registration,
    read_registration,
)
from callgate.errors import Reason, Refused
from callgate.protocol import DEVICE

_GERMAN: Final[Mapping[Reason, str]] = {
    Reason.MISSING_EVIDENCE: "Dieser Aufruf braucht die Zustimmung eines Menschen; ein gültiger Nachweis fehlt.",
    Reason.UNSUPPORTED_METHOD: "Diese Art von Nachweis wird hier nicht angenommen.",
    Reason.CHALLENGE_UNKNOWN: "Die Zustimmung nennt eine Aufgabe, die hier nicht oder vor langer Zeit gestellt wurde.",
    Reason.CHALLENGE_CONSUMED: "Die Zustimmung wurde schon verwendet; jede gilt für einen einzigen Aufruf.",
    Reason.CHALLENGE_EXPIRED: "Die Zustimmung kam zu spät.",
    Reason.CHALLENGE_WRONG_TOOL: "Die Zustimmung wurde für ein anderes Werkzeug gegeben.",
    Reason.UNKNOWN_CREDENTIAL: "Dieser Passkey gehört nicht zu denen, die hier zustimmen dürfen.",
    Reason.AUTHENTICATOR_CLASS_MISMATCH: "Dieses Werkzeug nimmt Passkeys dieser Art nicht an.",
    Reason.SIGNATURE_VERIFICATION_FAILED: "Die Unterschrift des Passkeys gilt nicht für diese Zustimmung.",
    Reason.SIGNATURE_COUNTER_REGRESSION: "Der Zähler des Passkeys ist nicht gestiegen; vielleicht gibt es eine Kopie.",
    Reason.ARGUMENT_HASH_MISMATCH: "Die Zustimmung wurde für andere Argumente gegeben, als der Aufruf hat.",
    Reason.TOOL_NOT_APPROVED_REQUIRED: "Kein Werkzeug dieses Namens braucht hier eine Zustimmung.",
    Reason.NO_ELIGIBLE_CREDENTIAL: "Wer zustimmen müsste, hat keinen Passkey, den dieses Werkzeug annimmt.",
    Reason.CREDENTIAL_ALREADY_ENROLLED: "Dieser Passkey ist schon eingetragen.",
    Reason.NO_PENDING_ENROLLMENT: "Dazu ist keine Eintragung im Gange, oder ihre Zeit ist vorbei.",
    Reason.VERIFICATION_FAILED: "Die Eintragung des neuen Passkeys ist nicht gültig.",
}


def localised(refused: Refused, locale: str) -> Refused:
    """The same refusal with its message in that language, where there is one."""
    text = _GERMAN.get(refused.reason) if locale == "de" else None
    if text is None:
        return refused
    return Refused(refused.reason, text, code=refused.code, advice=refused.advice, data=refused.data)


# Makes the audit row that says who did what; None where no log is kept.
Witness: TypeAlias = Callable[[str, str, dict[str, Any]], Any]


def no_witness(_action: str, _by: str, _detail: dict[str, Any]) -> None:
    """For a store without a log."""


SECRET: Final = 32
_NAME_CHARS: Final = 64
USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}\Z")
GROUP: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


def check_user_name(name: str) -> str:
    if not USER.match(name):
        raise Refused(
            Reason.INVALID_PARAMS,
            "a user's name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit",
            advice="Choose a name such as `alice` or `alice@example.com`.",
        )
    return name


def check_group_name(name: str) -> str:
    """The name as it is; Refused(INVALID_PARAMS) if no group can have it."""
    if not GROUP.match(name):
        raise Refused(
            Reason.INVALID_PARAMS,
            "a group's name has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or digit",
            advice="Choose a name such as `ops`.",
        )
    return name


def label(text: str, otherwise: str) -> str:
    """A name that a person gave a passkey or themselves, fit to be shown."""
    shown = "".join(char for char in text if char.isprintable()).strip()[:_NAME_CHARS]
    return shown or otherwise


_CODES: Final = 8
_CODE_BYTES: Final = 15
_TICKET_CHARS: Final = 128


class EnrolledPasskey(msgspec.Struct, frozen=True):
    """A new passkey; `codes` are shown to the person once and kept only as hashes."""

    user: User
    credential: Credential
    codes: tuple[str, ...] = ()

    @property
    def result(self) -> dict[str, Any]:
        """§4.4.2: what goes over the wire. Recovery codes never do."""
        return {
            "success": True,
            "credentialId": self.credential.id,
            "createdAt": to_iso(self.credential.created_at),
        }


def ticket_hash(ticket: str) -> bytes:
    return hashlib.sha256(b"callgate ticket\0" + ticket.encode("utf-8", "surrogatepass")).digest()


def code_hash(user: str, code: str) -> bytes:
    """Codes are random and long, so a fast hash keeps them; small slips in typing are forgiven."""
    plain = re.sub(r"[\s-]", "", code[:_TICKET_CHARS]).upper().replace("0", "O").replace("1", "I")
    return hashlib.sha256(f"callgate code\0{user}\0{plain}".encode("utf-8", "surrogatepass")).digest()


class Enrolment:
    """Tickets, new passkeys, recovery: over a store, for a relying party, with its settings, its time and its dice."""

    def __init__(
        self,
        shelf: ApprovalRepository,
        party: RelyingParty,
        settings: ApprovalSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        witness: Witness = no_witness,
        methods: Mapping[str, Method] = METHODS,
    ) -> None:
        self.shelf = shelf
        self.party = party
        self.settings = settings or ApprovalSettings()
        self.methods = methods
        self._clock = clock
        self._random = random
        self._witness = witness
        # The origin of the console that serves our own pages; what is signed there may be signed nowhere else.
        self.page_origin = ""

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def _refusal(self, reason: Reason, detail: str = "", advice: str = "") -> Refused:
        """The refusal in the language of the settings; the reason is the same in each."""
        return localised(Refused(reason, detail, advice=advice), self.settings.locale)

    def localise(self, refused: Refused) -> Refused:
        return localised(refused, self.settings.locale)

    async def user(self, name: str) -> User:
        user = await self.shelf.user(name)
        if user is None:
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")
        return user

    async def add_user(self, name: str, display_name: str = "", *, by: str, role: Role | None = None) -> User:
        """Add a person. The first one of a store runs it; who comes later approves, unless it is said otherwise."""
        shown = label(display_name, check_user_name(name))
        if role is None:
            role = "approver" if await self.shelf.users() else "operator"
        user = User(name=name, display_name=shown, handle=self._random(SECRET), created_at=self.now(), role=role)
        await self.shelf.add_user(user, self._witness("user.add", by, {"user": name, "role": role}))
        return user

    async def set_role(self, name: str, role: Role, *, by: str) -> None:
        """What a person may do from now on, in every page that is open too."""
        before = (await self.user(name)).role
        witness = self._witness("user.role", by, {"user": name, "role": role, "before": before})
        if not await self.shelf.set_role(name, role, witness, at=self.now()):
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")

    async def join_group(self, group: str, name: str, *, by: str) -> bool:
        """Put a person into a group, which is there from its first member on; False if they are in it."""
        check_group_name(group)
        await self.user(name)
        return await self.shelf.join_group(group, name, self._witness("group.join", by, {"group": group, "user": name}))

    async def leave_group(self, group: str, name: str, *, by: str) -> bool:
        """Take a person out of a group; what they signed as one of it counts no longer. False if they are not in it."""
        witness = self._witness("group.leave", by, {"group": group, "user": name})
        return await self.shelf.leave_group(group, name, self.now(), witness)

    async def remove(self, name: str, *, by: str) -> None:
        """Remove a person with their passkeys, recovery codes and open approvals, for good.

        Refused(LAST_OPERATOR) where those who stay could change nothing.
        """
        await self.user(name)
        passkeys = len(await self.shelf.credentials(name))
        witness = self._witness("user.remove", by, {"user": name, "passkeys": passkeys})
        if not await self.shelf.remove_user(name, witness):
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")

    async def invite(
        self, name: str, display_name: str = "", *, by: str, role: Role, signed_with: str | None = None
    ) -> str:
        """Add a person, and a ticket for their first passkey: whoever finds it later gets nowhere with it."""
        await self.add_user(name, display_name, by=by, role=role)
        return await self.ticket(name, by=by, purpose="setup", signed_with=signed_with)

    async def invite_again(self, name: str, *, by: str, signed_with: str | None = None) -> str:
        """A new ticket for somebody who has no passkey: who has one adds further ones with it, not through others."""
        await self.user(name)
        if await self.shelf.credentials(name):
            raise Refused(
                Reason.INVALID_PARAMS,
                f"{name} has a passkey and adds further ones with it.",
                advice="If all of them are lost, revoke them first.",
            )
        return await self.ticket(name, by=by, signed_with=signed_with)

    async def ticket(
        self,
        user: str,
        *,
        by: str,
        purpose: str = "enrol",
        seconds: float | None = None,
        signed_with: str | None = None,
    ) -> str:
        """A ticket for one enrolment of this person, who is added if new. Only its hash is kept.

        It holds only while the passkey that signed for it does, if one did.
        """
        await self._known(user, by)
        secret, ticket = self._new_ticket(user, purpose, by, seconds)
        ticket = msgspec.structs.replace(ticket, credential=signed_with)
        await self.shelf.add_ticket(ticket, self._witness("ticket.issue", by, {"user": user, "purpose": purpose}))
        return secret

    def _new_ticket(self, user: str, purpose: str, by: str, seconds: float | None = None) -> tuple[str, Ticket]:
        secret, now = to_base64url(self._random(SECRET)), self.now()
        lifetime = self.settings.ticket_ms if seconds is None else int(seconds * 1000)
        return secret, Ticket(ticket_hash(secret), user, purpose, by, now, now + lifetime)

    async def _known(self, name: str, by: str, role: Role | None = None) -> User:
        user = await self.shelf.user(name)
        if user is not None:
            return user
        try:
            return await self.add_user(name, by=by, role=role)
        except Refused as refused:
            if refused.reason is not Reason.USER_EXISTS:
                raise
            return await self.user(name)

    async def open_ticket(self, identity: str) -> Ticket | None:
        """The ticket whose hash this is (hexadecimal), while it can be used, or what was begun with it can be ended."""
        return next((one for one in await self.shelf.tickets(self.now()) if one.hash.hex() == identity), None)

    async def cancel_ticket(self, ticket: Ticket, *, by: str) -> bool:
        """End a ticket and what was begun with it; False if it was over already."""
        witness = self._witness("ticket.cancel", by, {"user": ticket.user, "purpose": ticket.purpose})
        return await self.shelf.cancel_ticket(ticket.hash, witness)

    async def look_at_ticket(self, ticket: str) -> Ticket | None:
        """The ticket while it can be used."""
        if not ticket or len(ticket) > _TICKET_CHARS:
            return None
        found = await self.shelf.ticket(ticket_hash(ticket))
        usable = found is not None and found.used_at is None and self.now() < found.expires_at
        return found if usable else None

    async def begin_enrolment(self, ticket: str | None, *, first_use: str | None = None) -> dict[str, Any]:
        """`approval/enroll/begin`. `first_use` names the person whose first passkey needs no ticket, if allowed."""
        if ticket is not None:
            found = await self.look_at_ticket(ticket)
            if found is None:
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            user = await self.user(found.user)
        elif self.settings.first_use and first_use:
            # Whoever comes first may be anybody: they approve, and change nothing for others.
            user = await self._known(first_use, "first use", "approver")
        else:
            raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
        now = self.now()
        registration = Registration(self._random(SECRET), user.name, now, now + self.settings.registration_ms)
        used = None if ticket is None else ticket_hash(ticket)
        await self.shelf.begin_registration(registration, self.settings.bounds, ticket=used, now=now)
        stored = await self.shelf.credentials(user.name)
        return {"options": self._creation_options(user, registration, stored)}

    def _creation_options(self, user: User, registration: Registration, stored: Any) -> dict[str, Any]:
        return {
            "rp": {"id": self.party.id, "name": self.party.name},
            "user": {"id": to_base64url(user.handle), "name": user.name, "displayName": user.display_name},
            "challenge": to_base64url(registration.challenge),
            "pubKeyCredParams": [{"type": "public-key", "alg": number} for number in ALGORITHMS],
            "timeout": self.settings.registration_ms,
            "attestation": self.settings.attestation.conveyance,
            "excludeCredentials": [one.descriptor for one in stored],
            "authenticatorSelection": {"residentKey": "preferred", "userVerification": "required"},
        }

    async def finish_enrolment(self, response: object, *, name: str = "", codes: bool = False) -> EnrolledPasskey:
        """`approval/enroll/finish`. With `codes` the person gets recovery codes if none are left: for our own pages
        only, never over MCP, where the agent's client would read them.
        """
        try:
            answer = read_registration(response)
        except MalformedResponse as error:
            raise self._refusal(Reason.VERIFICATION_FAILED) from error
        registration = await self._pending(answer.challenge)
        try:
            found = check_registration(answer, registration.challenge, self.party, self.settings.attestation)
        except (MalformedResponse, NotVerified) as error:
            raise self._refusal(Reason.VERIFICATION_FAILED) from error
        user = await self.user(registration.user)
        credential = self._credential(user, answer, found, name)
        wanted = codes and self.settings.recovery_codes
        texts = self._codes() if wanted and not await self.shelf.recovery_codes(user.name) else ()
        detail = {"user": user.name, "credential": credential.id, "transports": list(credential.transports)}
        try:
            await self.shelf.finish_registration(
                registration.challenge,
                credential,
                [code_hash(user.name, text) for text in texts],
                now=self.now(),
                witness=self._witness("credential.enrol", user.name, detail | {"attestation": found.attestation}),
            )
        except Refused as refused:
            raise self.localise(refused) from None
        return EnrolledPasskey(user, credential, texts)

    async def _pending(self, challenge: bytes) -> Registration:
        now = self.now()
        registration = await self.shelf.registration(challenge) if len(challenge) <= SECRET else None
        if registration is None and await self.shelf.open_registrations(now):
            # Someone is enrolling, and this answers a question that nobody asked.
            raise self._refusal(Reason.VERIFICATION_FAILED)
        if registration is None or registration.used_at is not None or now >= registration.expires_at:
            raise self._refusal(Reason.NO_PENDING_ENROLLMENT)
        return registration

    def _credential(self, user: User, answer: RegistrationResponse, found: Registered, name: str) -> Credential:
        now = self.now()
        return Credential(
            id=found.id,
            user=user.name,
            handle=user.handle,
            public_key=found.public_key,
            counter=found.counter,
            transports=answer.transports,
            name=label(name, "Passkey"),
            aaguid=found.aaguid,
            attestation=found.attestation,
            backup_eligible=found.backup_eligible,
            backed_up=found.backed_up,
            created_at=now,
        )

    def _codes(self) -> tuple[str, ...]:
        raw = (base64.b32encode(self._random(_CODE_BYTES)).decode() for _ in range(_CODES))
        return tuple("-".join(re.findall("......", text)) for text in raw)

    async def gateway_id(self) -> str:
        """What devices know this deployment by."""
        own = self.settings.server_id or await self.shelf.identity(to_base64url(self._random(SECRET)))
        return device.gateway_id(own)

    async def new_device(self, user: str, line: str) -> device.NewDevice:
        """What the line of a device says that it made for this person; Refused(VERIFICATION_FAILED) says what is wrong.

        Nothing is enrolled yet: that takes the person's passkey.
        """
        if not reaches((await self.user(user)).role, "approver"):
            raise Refused(Reason.ROLE_NEEDED, "A viewer decides on nothing, with a device or without.")
        try:
            found = device.read_enrolment(line, await self.gateway_id(), user)
        except (MalformedResponse, NotVerified) as error:
            raise Refused(
                Reason.VERIFICATION_FAILED,
                f"This is no line of a device to enrol: {error}.",
                advice=f"Copy the whole line from the device. It has to be made for {user} at this gateway.",
            ) from error
        now = self.now()
        if not now - self.settings.ticket_ms < found.time <= now + device.SKEW_MS:
            raise Refused(
                Reason.VERIFICATION_FAILED,
                "The line is too old, or the device's clock is wrong.",
                advice="Make a new one.",
            )
        if await self.shelf.credential(found.id) is not None:
            raise Refused(Reason.CREDENTIAL_ALREADY_ENROLLED, "The key of this device is enrolled, or was.")
        return found

    async def add_device(self, user: str, found: device.NewDevice, *, signed_with: str) -> Credential:
        """Enrol a device of this person, for which their passkey has just signed."""
        person = await self.user(user)
        held = Credential(
            id=found.id,
            user=user,
            handle=person.handle,
            public_key=found.public_key,
            counter=found.time,
            transports=(),
            name=label(found.name, "Device"),
            created_at=self.now(),
            method=DEVICE,
            voucher=signed_with,
        )
        detail = {"user": user, "device": held.id, "name": held.name, "signed_with": signed_with}
        await self.shelf.add_device(held, self.settings.bounds, self._witness("device.enrol", user, detail))
        return held

    async def recover(self, user: str, code: str) -> str:
        """A ticket for one enrolment against one recovery code, which is used up. Codes allow nothing else."""
        secret, ticket = self._new_ticket(user, "recovery", user)
        if not USER.match(user) or not code or len(code) > _TICKET_CHARS:
            raise Refused(Reason.ENROLMENT_NOT_AUTHORISED, "this name and recovery code do not belong together")
        witness = self._witness("recovery.use", user, {"user": user})
        await self.shelf.use_recovery_code(user, code_hash(user, code), ticket, witness)
        return secret

    async def is_recovery_code(self, user: str, code: str) -> bool:
        """Whether this would let the person enrol; only looked at, not used up."""
        return len(code) <= _TICKET_CHARS and await self.shelf.has_recovery_code(user, code_hash(user, code))

    async def rename(self, credential_id: str, name: str, *, by: str) -> None:
        shown = label(name, "Passkey")
        witness = self._witness("credential.rename", by, {"credential": credential_id, "name": shown})
        if not await self.shelf.rename_credential(credential_id, shown, witness):
            raise Refused(Reason.UNKNOWN_CREDENTIAL)

    async def revoke(self, credential_id: str, *, by: str, signed_with: str = "") -> None:
        """Withdraw a passkey for good: what it would sign from now on counts for nothing.

        `signed_with` is the passkey that its person signed this with; an operator signs nothing.
        """
        detail = {"credential": credential_id} | ({"signed_with": signed_with} if signed_with else {})
        witness = self._witness("credential.revoke", by, detail)
        if not await self.shelf.revoke_credential(credential_id, self.now(), witness):
            raise Refused(Reason.UNKNOWN_CREDENTIAL)
