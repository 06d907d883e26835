"""Messages of approval errors in other languages (SEP-2672 §4.10: messages may be localised, reasons never)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from callgate.approval.evidence import METHODS, Method
from callgate.approval.settings import ApprovalSettings, RelyingParty
from callgate.approval.storage import ApprovalRepository
from callgate.errors import Reason, Refused

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


class Base:
    """The store, the relying party, the settings, the time and the dice."""

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
