"""The agent's side: sign a request, or the directory that one's keys are published in, with the base that we verify."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import http_sf
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from callgate.agents.keys import ECDSA_P256, ED25519, RSA_PSS_256, RSA_PSS_512, public_jwk, thumbprint
from callgate.agents.model import DIRECTORY_TAG, TAG, Signed
from callgate.agents.verifying import (
    Input,
    SignedMessage,
    SignedResponse,
    components,
    content_digest,
    dictionary,
    inputs,
    member,
    signature_base,
    signatures,
)
from callgate.errors import Reason, Refused

PrivateKey: TypeAlias = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

EXPIRES_IN: Final = 60
# The request's line and host, so that the signature is good for no other request; header fields are added below.
COVERED: Final = ("@method", "@authority", "@path", "@query")


class Signer:
    """Signs with one private key. `directory_url` goes to Signature-Agent; without it that header is not sent."""

    def __init__(
        self,
        private_key: PrivateKey,
        directory_url: str | None = None,
        *,
        label: str = "sig1",
        algorithm: str | None = None,
        clock: Callable[[], float] = time.time,
        new_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(48),
    ) -> None:
        self.jwk: Mapping[str, str] = public_jwk(private_key.public_key())
        self.keyid = thumbprint(self.jwk)
        self.algorithm = algorithm or _ALGORITHM[self.jwk["kty"]]
        if self.algorithm not in _SIGNERS or (algorithm and not _fits(self.jwk["kty"], algorithm)):
            raise Refused(Reason.UNSUPPORTED_ALG, f"A key of type {self.jwk['kty']} does not sign with {algorithm}.")
        self._key = private_key
        self._directory = directory_url
        self.label = label
        self._clock = clock
        self._new_nonce = new_nonce

    def sign(
        self,
        signed: Signed,
        *,
        nonce: str | None = None,
        expires_in: int = EXPIRES_IN,
        digest: bool = True,
        covered: Sequence[str] = COVERED,
        legacy: bool = False,
    ) -> dict[str, str]:
        """The headers to set on the request, for its body as it is in `signed`.

        `covered` names components, or gives them as they stand in Signature-Input (`"x";key="a"`). What the request
        already has in a header that is returned, is in the returned value too. `legacy` sends Signature-Agent as older
        verifiers read it.
        """
        added: dict[str, str] = {}
        present = SignedMessage(signed)
        names = list(covered)
        if digest:
            if present.header(b"content-digest") is None:
                added["Content-Digest"] = content_digest(signed.body)
            names.append("content-digest")
        if self._directory is not None:
            names.append("signature-agent" if legacy else f'"signature-agent";key="{self.label}"')
            value = _written(self._directory)
            added["Signature-Agent"] = (
                value if legacy else _beside(present, b"signature-agent", f"{self.label}={value}", self.label)
            )
        whole = SignedMessage(_with(signed, added))
        return added | self._signed(whole, names, TAG, nonce or self._new_nonce(), expires_in)

    def sign_answer(self, answer: SignedResponse, *, expires_in: int = 300, digest: bool = True) -> dict[str, str]:
        """The headers to set on a key directory's answer, which show that whoever publishes the key has it."""
        added: dict[str, str] = {}
        names = ['"@authority";req']
        if digest:
            if SignedMessage(answer).header(b"content-digest") is None:
                added["Content-Digest"] = content_digest(answer.body)
            names.append("content-digest")
        headers = answer.headers + tuple((name.lower().encode(), text.encode()) for name, text in added.items())
        whole = SignedMessage(SignedResponse(answer.status, headers, answer.request, answer.body))
        return added | self._signed(whole, names, DIRECTORY_TAG, self._new_nonce(), expires_in)

    def _signed(
        self, message: SignedMessage, names: Sequence[str], tag: str, nonce: str, expires_in: int
    ) -> dict[str, str]:
        created = int(self._clock())
        params = {
            "created": created,
            "expires": created + expires_in,
            "keyid": self.keyid,
            "alg": self.algorithm,
            "nonce": nonce,
            "tag": tag,
        }
        listed = "(" + " ".join(name if name.startswith('"') else f'"{name}"' for name in names) + ")"
        items = [(one.name, dict(one.params)) for one in components(listed)]
        given = Input(components(listed), params, listed, member((items, params)))
        signature = _SIGNERS[self.algorithm](self._key, signature_base(given, message))
        written = f"{self.label}=:{b64encode(signature).decode()}:"
        return {
            "Signature-Input": _beside(message, b"signature-input", f"{self.label}={given.text}", self.label),
            "Signature": _beside(message, b"signature", written, self.label),
        }


def _with(signed: Signed, added: Mapping[str, str]) -> Signed:
    """The request with these headers, in place of any it has of these names."""
    names = {name.lower().encode() for name in added}
    kept = tuple((name, text) for name, text in signed.headers if name.lower() not in names)
    more = tuple((name.lower().encode(), text.encode()) for name, text in added.items())
    return Signed(signed.method, signed.scheme, signed.authority, signed.path, signed.query, kept + more, signed.body)


def _beside(message: SignedMessage, name: bytes, text: str, label: str) -> str:
    """A member put after those that are there; a label that is taken is not signed over."""
    there = message.header(name)
    if not there:
        return text
    if label in _READERS[name](there):
        raise Refused(Reason.SIGNATURE_INPUT_MALFORMED, f"The request has a signature with the label {label} already.")
    return f"{there.decode('ascii')}, {text}"


def _written(text: str) -> str:
    try:
        return http_sf.ser((text, {}))
    except ValueError as error:
        raise Refused(Reason.SIGNATURE_INPUT_MALFORMED, "The directory's URL has to be plain ASCII.") from error


def _fits(kind: str, algorithm: str) -> bool:
    return algorithm == _ALGORITHM[kind] or (kind == "RSA" and algorithm == RSA_PSS_256)


def _sign_p256(key: Any, base: bytes) -> bytes:
    r, s = decode_dss_signature(key.sign(base, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _sign_pss(digest: hashes.HashAlgorithm) -> Callable[[Any, bytes], bytes]:
    scheme = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)
    return lambda key, base: bytes(key.sign(base, scheme, digest))


_READERS: Final[Mapping[bytes, Callable[[bytes], Mapping[str, Any]]]] = {
    b"signature": signatures,
    b"signature-input": inputs,
    b"signature-agent": lambda raw: dictionary(raw, Reason.SIGNATURE_INPUT_MALFORMED),
}
_ALGORITHM: Final = {"OKP": ED25519, "EC": ECDSA_P256, "RSA": RSA_PSS_512}
_SIGNERS: Final[Mapping[str, Callable[[Any, bytes], bytes]]] = {
    ED25519: lambda key, base: bytes(key.sign(base)),
    ECDSA_P256: _sign_p256,
    RSA_PSS_512: _sign_pss(hashes.SHA512()),
    RSA_PSS_256: _sign_pss(hashes.SHA256()),
}
