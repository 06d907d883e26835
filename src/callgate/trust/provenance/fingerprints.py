"""Words as keyed 64-bit digests: who has the store but not the key learns nothing of what was said."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

from callgate.trust.provenance import normalise

# Words that come again cost one look. Beyond this many, and for long words, they are worked out anew.
CACHED: Final = 65_536
CACHED_LENGTH: Final = 64
MASK: Final = (1 << 64) - 1
# Odd, so that no bit is lost. The digests that it spreads are secret; it need not be.
SPREAD: Final = 0x9E3779B97F4A7C15
# A word of its own that stands where one text ends and another begins.
BREAK: Final = "\x04"
_BEGINNINGS: Final = 4_096
_SPELLINGS: Final = 4_096
_BEGUN: Final = 256
_BEGUN_CHARS: Final = 512
_NOTHING: Final = bytes(8)


class _Words(dict[str, bytes]):
    """From a word to the digests of its parts, packed; made when first asked. `known` has some words already, taken
    apart in another way."""

    def __init__(
        self, fingerprints: Fingerprints, parts: Callable[[str], list[str]], known: Mapping[str, bytes]
    ) -> None:
        super().__init__()
        self._digest = fingerprints.raw
        self._parts = parts
        self._known = known

    def __missing__(self, word: str) -> bytes:
        if word == BREAK:
            return _NOTHING
        if normalise.is_plain(word):
            # It is one part, whatever it is taken apart for.
            packed = self._known.get(word) or self._digest(word)
        else:
            packed = b"".join(map(self._digest, self._parts(word)))
        if len(word) <= CACHED_LENGTH:
            if len(self) >= CACHED:
                self.clear()
            self[word] = packed
        return packed


class _Beginnings(dict[str, Sequence[int]]):
    """From a piece of a value to the digests of all that it begins with, itself included."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        super().__init__()
        self._fingerprints = fingerprints

    def __missing__(self, piece: str) -> Sequence[int]:
        digests = self._fingerprints.pieces
        packed = [digests[piece[:end]] for end in range(1, len(piece) + 1)]
        found = array("Q", [int.from_bytes(one, sys.byteorder) for one in packed if len(one) <= 8])
        if len(self) >= _BEGINNINGS:
            self.clear()
        self[piece] = found
        return found


# A value's words, their digests in their order, those of all that it could be put together from, and the same with each
# group of an account number for itself.
Spelling: TypeAlias = tuple[Sequence[str], "array[int]", "array[int]", "array[int]"]


class _Spellings(dict[str, Spelling]):
    """Of values of at most 64 characters, which come again."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        super().__init__()
        self._fingerprints = fingerprints

    def __missing__(self, text: str) -> Spelling:
        fingerprints, folded = self._fingerprints, normalise.fold(text)
        words = normalise.words(folded)
        spelt = words if len(words) < 3 else normalise.grouped(words, folded)
        together = "".join(spelt)
        if together.isalnum() and together.isascii() and text.isascii():
            # Nothing but letters and digits: a word is one part, whatever it is taken apart for.
            said = pieces = array("Q", b"".join(map(fingerprints.pieces.__getitem__, spelt)))
        else:
            said, pieces = fingerprints.words(spelt), fingerprints.parts(text, spelt)
        apart = pieces if spelt is words else fingerprints.parts(text, words)
        found = tuple(spelt), said, pieces, apart
        if len(self) >= _SPELLINGS:
            self.clear()
        self[text] = found
        return found


class Fingerprints:
    """The digests of one key. Share one for all sessions: its caches are the costly part, and hold nobody's secrets
    longer than the process lives."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a key for fingerprints has at least 16 bytes")
        self._hash = blake2b(key=key[:64], digest_size=8, person=b"callgate/values")
        # Digests of names that begin alike, such as those of all things of one server.
        self._begun: dict[tuple[str, ...], blake2b] = {}
        self._names = blake2b(key=key[:64], digest_size=16, person=b"callgate/object")
        # Which key it is, for who meets digests of another.
        self.id = blake2b(key=key[:64], digest_size=8, person=b"callgate/key-id").digest()
        self.pieces = _Words(self, normalise.pieces, {})
        self.atoms = _Words(self, normalise.atoms, self.pieces)
        # Of pieces of at most 64 characters.
        self.beginnings = _Beginnings(self)
        self.spellings = _Spellings(self)

    def raw(self, text: str) -> bytes:
        hashed = self._hash.copy()
        hashed.update(text.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    def digest(self, text: str) -> int:
        return int.from_bytes(self.raw(text), sys.byteorder)

    def words(self, spelt: Sequence[str]) -> array[int]:
        """The digests of words, in their order."""
        return array("Q", b"".join(map(self.atoms.__getitem__, spelt)))

    def parts(self, text: str, spelt: Sequence[str]) -> array[int]:
        """The digests of all that a text with these words could be put together from."""
        plain = text.isascii() and "%" not in text and "\\" not in text
        found = spelt if plain else normalise.different(normalise.rough(text))
        return array("Q", b"".join(map(self.pieces.__getitem__, found)))

    def named(self, *parts: str) -> str:
        """The digest of a thing with a name in several parts, for the store."""
        *first, last = parts
        begun = self._begun.get(tuple(first))
        if begun is None:
            begun = self._names.copy()
            for part in first:
                begun.update(_framed(part))
            # Kinds of things are named by strangers, at any length.
            if sum(map(len, first)) <= _BEGUN_CHARS:
                if len(self._begun) >= _BEGUN:
                    self._begun.clear()
                self._begun[tuple(first)] = begun
        hashed = begun.copy()
        hashed.update(_framed(last))
        return hashed.hexdigest()


def _framed(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4, "little") + encoded
