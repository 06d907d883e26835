"""What is said over the socket of a gateway: a length, then a JSON object; descriptors come with the first byte."""

from __future__ import annotations

import array
import json
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Both sides name it: where it is another, they say so instead of misunderstanding each other.
PROTOCOL = 1
MESSAGE_BYTES = 4 * 2**20
_HEAD = 4
DESCRIPTORS = 4
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class WireError(Exception):
    """What came is no message."""


def encode(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return len(body).to_bytes(_HEAD) + body


def send(link: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    data = encode(message)
    if descriptors:
        held = array.array("i", descriptors)
        sent = link.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, held)])
        data = data[sent:]
    if data:  # sending nothing would fail on a peer that has read the message and hung up
        link.sendall(data)


class Incoming:
    """Puts messages together from what is read. Descriptors belong to whoever takes the message they came with."""

    def __init__(self, most: int = MESSAGE_BYTES) -> None:
        self._most = most
        self._data = bytearray()
        self._descriptors: list[int] = []

    def read(self, link: socket.socket) -> bool:
        """Read what there is; False at the end."""
        data, parts, flags, _ = link.recvmsg(
            65536, socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize), _CLOSE_ON_EXEC
        )
        for level, kind, held in parts:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(held[: len(held) - len(held) % numbers.itemsize])
                self._descriptors += numbers
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > DESCRIPTORS:
            self.close()
            raise WireError("too many descriptors")
        self._data += data
        return bool(data)

    def take(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next whole message and what came with it; WireError where it is none."""
        if len(self._data) < _HEAD:
            return None
        size = int.from_bytes(self._data[:_HEAD])
        if size > self._most:
            raise WireError("too long")
        if len(self._data) < _HEAD + size:
            return None
        body = bytes(self._data[_HEAD : _HEAD + size])
        del self._data[: _HEAD + size]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise WireError("not JSON") from None
        if not isinstance(message, dict):
            raise WireError("not an object")
        held, self._descriptors = self._descriptors, []
        for descriptor in held:
            os.set_inheritable(descriptor, False)  # noqa: FBT003
        return message, held

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def receive(link: socket.socket, incoming: Incoming) -> dict[str, Any] | None:
    """The next message; None where the other end is gone."""
    while (found := incoming.take()) is None:
        try:
            if not incoming.read(link):
                return None
        except ConnectionError:
            return None
    message, held = found
    for descriptor in held:
        os.close(descriptor)
    return message
