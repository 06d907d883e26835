"""The gateway's own secrets: beside the store, owner-only, versioned, never inside the database they protect.

A key is 32 bytes, in a file `NAME.VERSION.key` (base64); the highest version is the current one. `checkpoint` is an
Ed25519 seed, whose retired versions keep only their public half (`checkpoint.VERSION.pub`); every other key is
symmetric and stays, because old records still verify with it. A cluster gives keys by `CALLGATE_KEY_<NAME>` or
`CALLGATE_KEY_<NAME>_FILE`: base64, comma or line separated, the current one first; `pub:BASE64` is the public half of
a retired one.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.errors import KeyringError
from callgate.files import settle, write_beside

CHECKPOINT: Final = "checkpoint"
SEAL: Final = "seal"
SIZE: Final = 32
_FILE: Final = re.compile(r"(?P<name>[a-z][a-z_]{0,31})\.(?P<version>[1-9][0-9]{0,5})\.(?P<kind>key|pub)\Z")


class Key(msgspec.Struct, frozen=True):
    """One version of one key; `secret` is empty for a retired checkpoint key."""

    name: str
    version: int
    secret: bytes
    public: bytes = b""
    source: str = ""

    def __repr__(self) -> str:
        return f"Key({self.name!r}, {self.version})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("version", self.version)]

    def signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


class Keyring:
    """The keys of one store; reads its folder again when it has changed."""

    def __init__(
        self,
        directory: Path | None,
        *,
        environ: Mapping[str, str] = os.environ,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.directory = directory
        self._environ = environ
        self._random = random
        self._keys: dict[str, list[Key]] = {}
        self._seen: int | None = None

    def current(self, name: str) -> Key:
        """The key to use now. Never makes one: only who knows that nothing was signed yet may (`make`)."""
        self.require(name)
        key = self._keys[name][0]
        if not key.secret:
            raise KeyringError(
                f"of the {name} key, only the public half is in {self.directory or 'the environment'}",
                advice="Set store.keys_dir to the folder that has the secret half, "
                f"or give the key as {_variable(name)}.",
            )
        return key

    def make(self, *names: str) -> None:
        """Make those of these keys that there are none of yet."""
        for name in names:
            if not self.versions(name):
                self._create(name, 1)

    def versions(self, name: str) -> list[Key]:
        """Every known version, the newest first."""
        self.refresh()
        return list(self._keys.get(name, ()))

    def require(self, *names: str) -> None:
        """Refuse to go on without these keys: a new one would verify nothing."""
        for name in names:
            if not self.versions(name):
                raise KeyringError(
                    f"there is no {name} key in {self.directory or 'the environment'}",
                    advice="Set store.keys_dir to the folder that belongs to this store, "
                    f"or give the key as {_variable(name)}.",
                )

    def public_keys(self) -> list[bytes]:
        """The public half of every checkpoint key, the newest first."""
        return [key.public for key in self.versions(CHECKPOINT)]

    def names(self) -> list[str]:
        self.refresh()
        return sorted(self._keys)

    def rotate(self, name: str) -> Key:
        """Make a new version and retire the one before."""
        old = self.current(name)
        if old.source == "environment":
            raise KeyringError(
                f"the {name} key comes from the environment",
                advice=f"Put the new key first in {_variable(name)}, keep the old one behind it, and restart.",
            )
        self._create(name, old.version + 1)
        if name == CHECKPOINT:
            self._retire(old)
        return self.current(name)

    def refresh(self) -> None:
        """Read the keys again if the folder has changed since the last time."""
        stamp = self._stamp()
        if stamp == self._seen and self._seen is not None:
            return
        found: dict[str, list[Key]] = {}
        try:
            for key in [*self._given(), *self._stored()]:
                found.setdefault(key.name, []).append(key)
        except OSError as error:
            raise _unreadable(self.directory, error) from None
        self._keys, self._seen = found, stamp

    def _stamp(self) -> int:
        if self.directory is None:
            return 0
        try:
            return self.directory.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _unreadable(self.directory, error) from None

    def _given(self) -> list[Key]:
        keys: list[Key] = []
        for variable, value in sorted(self._environ.items()):
            if not variable.startswith("CALLGATE_KEY_") or not value.strip():
                continue
            name = variable.removeprefix("CALLGATE_KEY_").lower()
            if name.endswith("_file"):
                name, value = name.removesuffix("_file"), _read_text(Path(value))
            parts = [part.strip() for part in value.replace("\n", ",").split(",") if part.strip()]
            keys += [_key(name, len(parts) - at, part, "environment", variable) for at, part in enumerate(parts)]
        return keys

    def _stored(self) -> list[Key]:
        if self.directory is None or not self.directory.is_dir():
            return []
        _owner_only(self.directory, 0o700)
        keys: list[Key] = []
        for path in self.directory.iterdir():
            match = _FILE.match(path.name)
            if match is None:
                continue
            _owner_only(path, 0o600)
            prefix = "pub:" if match["kind"] == "pub" else ""
            keys.append(
                _key(match["name"], int(match["version"]), prefix + _read_text(path).strip(), "file", str(path))
            )
        # While a rotation is under way a version has both halves: the secret one counts.
        keys.sort(key=lambda key: (key.name, -key.version, not key.secret))
        return [key for at, key in enumerate(keys) if at == 0 or (key.name, key.version) != _id(keys[at - 1])]

    def _create(self, name: str, version: int) -> None:
        if self.directory is None:
            raise KeyringError(
                f"there is no {name} key and no folder to make one in",
                advice=f"Set store.keys_dir, or give the key as {_variable(name)}.",
            )
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _owner_only(self.directory, 0o700)
            _publish(self.directory / f"{name}.{version}.key", base64.b64encode(self._random(SIZE)) + b"\n")
        except OSError as error:
            raise KeyringError(
                f"a key cannot be written to {self.directory}: {error.strerror}",
                advice="Check the folder's owner and free space, or set store.keys_dir.",
            ) from None
        self._seen = None
        self.refresh()

    def _retire(self, old: Key) -> None:
        assert self.directory is not None
        _publish(self.directory / f"{old.name}.{old.version}.pub", base64.b64encode(old.public) + b"\n")
        (self.directory / f"{old.name}.{old.version}.key").unlink(missing_ok=True)
        self._seen = None


def _unreadable(directory: Path | None, error: OSError) -> KeyringError:
    return KeyringError(
        f"{directory} cannot be read: {error.strerror}", advice="Check its owner, or set store.keys_dir."
    )


def _id(key: Key) -> tuple[str, int]:
    return key.name, key.version


def _variable(name: str) -> str:
    return f"CALLGATE_KEY_{name.upper()}"


def _key(name: str, version: int, text: str, source: str, where: str) -> Key:
    retired = text.startswith("pub:")
    try:
        raw = base64.b64decode(text.removeprefix("pub:"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != SIZE or (retired and name != CHECKPOINT):
        raise KeyringError(
            f"{where} does not hold a key",
            advice="A key is 32 random bytes in base64; `openssl rand -base64 32` prints one.",
        )
    if retired:
        return Key(name, version, b"", raw, source)
    public = Ed25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw() if name == CHECKPOINT else b""
    return Key(name, version, raw, public, source)


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            return file.read(65_536)
    except (OSError, UnicodeDecodeError) as error:
        raise KeyringError(
            f"the key file {path} cannot be read: {error}", advice="Check its path, owner and content."
        ) from None


def _owner_only(path: Path, mode: int) -> None:
    if os.name == "nt":
        return  # access lists, not modes; the folder inherits the profile's
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise KeyringError(
            f"{path} can be reached by other users, so its keys are not secret",
            advice=f"Type `chmod {mode:o} {path}`; if others may have read it, run `callgate keys rotate` too.",
        )


def _publish(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; the first of several processes wins, the others use its file."""
    draft = write_beside(path, content)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
            settle(path.parent)
    finally:
        draft.unlink(missing_ok=True)
