"""A device that answers calls for its person: a small client of docs/reference/device-protocol.md, in a terminal.

It knows nothing of Callgate but that protocol, and needs `cryptography` and nothing else. Type:

    python device.py enrol http://localhost:8420 --user ann --name Pixel
    python device.py watch
"""

import argparse
import base64
import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PROTOCOL = "callgate-device/1"


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def canonical(value: dict[str, Any]) -> bytes:
    """RFC 8785. Enough for objects of texts and whole numbers with ASCII keys, which are all that is signed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Device:
    """A key, the gateway it answers to, and the time of its last message."""

    def __init__(self, gateway: str, address: str, user: str, name: str, secret: str) -> None:
        self.gateway, self.address, self.user, self.name = gateway, address, user, name
        self.key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
        self.public = b64(self.key.public_key().public_bytes_raw())
        self.thumbprint = b64(hashlib.sha256(canonical({"crv": "Ed25519", "kty": "OKP", "x": self.public})).digest())
        self._last = 0

    def now(self) -> int:
        """Milliseconds since 1970, later with each message: the gateway takes none twice."""
        self._last = max(int(time.time() * 1000), self._last + 1)
        return self._last

    def sign(self, purpose: str, message: dict[str, Any]) -> str:
        return b64(self.key.sign(f"{PROTOCOL} {purpose}\n".encode() + canonical(message)))

    def line(self) -> str:
        """What the person copies to the console, where their passkey signs it."""
        own: dict[str, Any] = {"gateway": self.gateway, "name": self.name, "publicKey": self.public, "user": self.user}
        own["time"] = self.now()
        return b64(canonical(own | {"signature": self.sign("enrol", own)}))

    def ask(self, what: str, request: str = "") -> Any:
        body = {"key": self.thumbprint, "request": request, "time": self.now()}
        signature = self.sign("ask", body | {"ask": what, "gateway": self.gateway})
        return talk(f"{self.address}/devices/v1/{what}", body | {"signature": signature})

    def answer(self, call: dict[str, Any], decision: str) -> Any:
        """Sign a yes or a no to exactly this call, and send it."""
        said = {"decision": decision, "key": self.thumbprint, "time": self.now()}
        signed = {name: call[name] for name in ("actionHash", "challengeId", "nonce")}
        signature = self.sign("answer", said | signed | {"gateway": self.gateway, "method": "device"})
        evidence = {"method": "device", "challengeId": call["challengeId"], "response": said | {"signature": signature}}
        return talk(f"{self.address}/devices/v1/answer", {"request": call["request"], "evidence": evidence})


def talk(address: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})  # noqa: S310 - typed by you
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = json.load(error)["error"]
        raise SystemExit(f"{said['reason']}: {plain(said['message'])} {plain(said['advice'])}") from None


def plain(text: object) -> str:
    """The gateway spells out what is invisible. A device that shows it looks again."""
    return "".join(char if char.isprintable() else "?" for char in str(text))


def show(call: dict[str, Any]) -> None:
    print(f"\n{plain(call['askedBy'])} wants {plain(call['tool'])} on {plain(call['server'])}:\n")
    for line in call["lines"]:
        print(f"    {plain(line)}")
    print(f"\n    exactly: {plain(call['arguments'])}\n")
    for line in [*call["why"], *call["signed"]]:
        print(f"  {plain(line)}")


def decide(device: Device, request: str) -> None:
    """Show one call whole, ask, and sign the answer to what was shown and to nothing else."""
    shown = device.ask("call", request)
    show(shown["call"])
    said = input(f"Type yes or no, {device.user}, or nothing to leave it: ").strip()
    if said in ("yes", "no"):
        # A challenge lives a minute, and reading takes longer.
        fresh = device.ask("call", request)
        if fresh["call"]["lines"] != shown["call"]["lines"] or fresh["actionHash"] != shown["actionHash"]:
            raise SystemExit("The gateway shows another call now. Nothing was signed.")
        print(f"The call is {device.answer(fresh, said)['state']}.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer calls that wait for you, without a passkey.")
    parser.add_argument("--file", type=Path, default=Path("device.json"), help="where the key is kept")
    verbs = parser.add_subparsers(dest="verb", required=True)
    enrol = verbs.add_parser("enrol")
    enrol.add_argument("address", help="the console's address, such as http://localhost:8420")
    enrol.add_argument("--user", required=True)
    enrol.add_argument("--name", required=True)
    watch = verbs.add_parser("watch")
    watch.add_argument("--once", action="store_true", help="end after one look")
    given = parser.parse_args()
    if given.verb == "enrol":
        address = given.address.rstrip("/")
        secret = Ed25519PrivateKey.generate().private_bytes_raw().hex()
        made = {"address": address, "user": given.user, "name": given.name, "secret": secret}
        made["gateway"] = talk(f"{address}/devices/v1")["gateway"]
        with os.fdopen(os.open(given.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(made, file)
        print(f"Open {address}/me, choose “Let a device answer”, and copy this line there:\n\n{Device(**made).line()}")
        return
    device, left = Device(**json.loads(given.file.read_text())), set()
    while True:
        for one in device.ask("waiting")["waiting"]:
            if one["request"] not in left:
                left.add(one["request"])
                decide(device, one["request"])
        if given.once:
            return
        time.sleep(2)


if __name__ == "__main__":
    main()
