"""Whose log it is: keys are made for a log that is empty, and never for one that others have sealed or signed.

One record under a new key cannot be taken back: the log would fail its verification for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from callgate.audit import note
from callgate.audit.seal import SEAL_BYTES, Sealer
from callgate.audit.storage import CHECKPOINT, SEAL, Head, Keys, Storage
from callgate.errors import KeyringError, StoreUnavailable, Tampered

_ATTEMPTS: Final = 250
_PAUSE_SECONDS: Final = 0.02
# So many of the newest seals are looked at: a few that somebody has changed do not make the keys foreign.
_SEALS: Final = 16


def claim(store: Storage, keyring: Keys, found: Callable[[], None]) -> None:
    """Make the keys of an empty log and `found` it; otherwise refuse keys that are not this log's."""
    for attempt in range(_ATTEMPTS):
        if attempt > 1:
            time.sleep(_PAUSE_SECONDS)  # someone else is at it
        with store.audit_reading() as tables:
            head, remains, seals = tables.head(), tables.has_remains(), tables.last_seals(_SEALS)
        if seals or remains:
            keyring.require(SEAL)
            _check_seals(keyring, seals)
        else:
            keyring.make(SEAL)
        if remains:
            keyring.require(CHECKPOINT)
            if head is not None:
                _check_head(keyring, head)
            return
        keyring.make(CHECKPOINT)
        # Of several that find the log empty at once, one founds it; then each sees whether its keys are that one's.
        found()
    raise StoreUnavailable("the audit log could not be begun", advice="Run `callgate store check`, then try again.")


def _check_head(keyring: Keys, head: Head) -> None:
    try:
        own = note.names_one_of(head.note, keyring.public_keys())
    except Tampered:
        return  # not a matter of keys: the sequencer and `callgate audit verify` say what is wrong with it
    if not own:
        raise _foreign(keyring)


def _check_seals(keyring: Keys, seals: list[object]) -> None:
    knows = Sealer(keyring).knows
    whole = [seal for seal in seals if type(seal) is bytes and len(seal) == SEAL_BYTES]
    if whole and not any(knows(seal) for seal in whole):
        raise _foreign(keyring)


def _foreign(keyring: Keys) -> KeyringError:
    return KeyringError(
        f"the keys in {keyring.directory or 'the environment'} are not those that this store's log was written with",
        advice="Set store.keys_dir to the folder that belongs to this store, or give its keys as CALLGATE_KEY_SEAL "
        "and CALLGATE_KEY_CHECKPOINT. If they are the right ones, `callgate audit verify` says what was changed.",
    )
