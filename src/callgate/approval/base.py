"""What all parts of the service stand on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from callgate.approval.evidence import METHODS, Method
from callgate.approval.party import RelyingParty
from callgate.approval.settings import Settings
from callgate.approval.storage import Shelf
from callgate.approval.wording import localised
from callgate.errors import Reason, Refused

# Makes the audit row that says who did what; None where no log is kept.
Witness: TypeAlias = Callable[[str, str, dict[str, Any]], Any]


def no_witness(_action: str, _by: str, _detail: dict[str, Any]) -> None:
    """For a store without a log."""


class Base:
    """The store, the relying party, the settings, the time and the dice."""

    def __init__(
        self,
        shelf: Shelf,
        party: RelyingParty,
        settings: Settings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        witness: Witness = no_witness,
        methods: Mapping[str, Method] = METHODS,
    ) -> None:
        self.shelf = shelf
        self.party = party
        self.settings = settings or Settings()
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
