"""The keys of the log: seals of records (HMAC-SHA256), whose log it is, and which keys there are."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any, Final

from callgate.audit import note
from callgate.audit.note import VerifierKey
from callgate.audit.storage import CHECKPOINT, SEAL, LogKeys, Storage, TreeHead
from callgate.errors import KeyringError, StoreUnavailable, Tampered

SEAL_BYTES: Final = 36


def _maker(key: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The id of a key and a function that seals with it.

    RFC 2104 with both padded blocks hashed once: half the cost of `hmac.digest` on records of this size.
    """
    key_id = hashlib.sha256(b"callgate seal key\n" + key).digest()[:4]
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block)).copy
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block)).copy

    def seal(body: bytes) -> bytes:
        first = inner()
        first.update(body)
        second = outer()
        second.update(first.digest())
        return key_id + second.digest()

    return key_id, seal


class Sealer:
    """Seals with the current key, checks with every known one."""

    def __init__(self, keyring: LogKeys) -> None:
        self._keyring = keyring
        self._makers: dict[bytes, Callable[[bytes], bytes]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Follow a rotation."""
        current = self._keyring.current(SEAL)
        makers = dict(_maker(key.secret) for key in self._keyring.versions(SEAL))
        self._makers = makers
        self.seal: Callable[[bytes], bytes] = makers[_maker(current.secret)[0]]

    def knows(self, seal: bytes) -> bool:
        """Whether this seal says that it was made with one of the keys."""
        return seal[:4] in self._makers

    def holds(self, body: object, seal: object) -> bool:
        """Whether this seal was made for this body with one of the keys."""
        # SQLite would hand out text or a number if someone had put one there.
        if type(body) is not bytes or type(seal) is not bytes:
            return False
        maker = self._makers.get(seal[:4])
        return maker is not None and hmac.compare_digest(maker(body), seal)


_ATTEMPTS: Final = 250
_PAUSE_SECONDS: Final = 0.02
# So many of the newest seals are looked at: a few that somebody has changed do not make the keys foreign.
_SEALS: Final = 16


def claim(store: Storage, keyring: LogKeys, found: Callable[[], None]) -> None:
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


def _check_head(keyring: LogKeys, head: TreeHead) -> None:
    try:
        own = note.names_one_of(head.note, keyring.public_keys())
    except Tampered:
        return  # not a matter of keys: the sequencer and `callgate audit verify` say what is wrong with it
    if not own:
        raise _foreign(keyring)


def _check_seals(keyring: LogKeys, seals: list[object]) -> None:
    knows = Sealer(keyring).knows
    whole = [seal for seal in seals if type(seal) is bytes and len(seal) == SEAL_BYTES]
    if whole and not any(knows(seal) for seal in whole):
        raise _foreign(keyring)


def _foreign(keyring: LogKeys) -> KeyringError:
    return KeyringError(
        f"the keys in {keyring.directory or 'the environment'} are not those that this store's log was written with",
        advice="Set store.keys_dir to the folder that belongs to this store, or give its keys as CALLGATE_KEY_SEAL "
        "and CALLGATE_KEY_CHECKPOINT. If they are the right ones, `callgate audit verify` says what was changed.",
    )


def key_rows(ring: LogKeys) -> list[dict[str, Any]]:
    """The newest version of each key first."""
    return [
        {
            "name": name,
            "version": key.version,
            "state": "current" if at == 0 else "retired",
            "source": key.source,
            "fingerprint": VerifierKey(name, key.public).fingerprint if key.public else "-",
        }
        for name in ring.names()
        for at, key in enumerate(ring.versions(name))
    ]
