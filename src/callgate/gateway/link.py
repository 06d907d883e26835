"""Many HTTP exchanges over one process: which message of the process belongs to whom.

Two kinds of link share this file's Link. A session's process serves one client, so ids travel unchanged and a message
that answers nobody goes to that client's stream. The modern era's process is shared by all clients: each request gets
an id (and progress token) of its own on the way in and its client's back on the way out, and a message that cannot be
attributed to exactly one client is dropped, never shown to another. A log message names no request: it has an owner
only while one request is open and none was given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from callgate.errors import MessageError, Reason, Refused, UpstreamError
from callgate.gateway.entering import Entry
from callgate.gateway.lines import TooLarge, one_line
from callgate.gateway.process import Process
from callgate.jsonrpc import Kind, Message, Peek, RequestId, error_reply, member_span, parts, peek, replace_member

log = logging.getLogger("callgate.link")

_BOX_MAX: Final = 2000
# What may wait for one client: two messages of the largest size, and a burst of smaller ones where that is small.
_BOX_MESSAGES: Final = 2
_BOX_BURST: Final = 4 * 1024 * 1024
_CANCEL_GRACE: Final = 2.0
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_SUBSCRIPTION_PATH: Final = ("params", "_meta", _SUBSCRIPTION)
_PROGRESS_PATH: Final = ("params", "progressToken")
# Told of every message of the server's own accord.
Hear = Callable[[bytes], None]
_decode_id: Final = msgspec.json.Decoder(int | str).decode
_encode: Final = msgspec.json.Encoder().encode


class Box:
    """What the process sends for one exchange, in order; `None` ends it. Bounded in messages and in bytes."""

    def __init__(self, entry: Entry, most_bytes: int, *, own: bool = False) -> None:
        self.entry = entry
        # Of the gateway itself: nothing but its reply is meant for it.
        self.own = own
        self.failure: UpstreamError | None = None
        self.waiting: set[RequestId] = {m.id for m in entry.messages if m.kind is Kind.REQUEST and m.id is not None}
        self.tokens = {token for m in entry.messages if (token := _token(m)) is not None}
        self.cancelled: set[RequestId] = set()
        self.overflow = False
        self.line = b""
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = most_bytes

    def put(self, message: bytes | None) -> None:
        size = len(message or b"")
        # Once something did not fit nothing follows it: a client must not take a part for the whole.
        self.overflow = self.overflow or self._queue.qsize() >= _BOX_MAX or size > self._room
        if not self.overflow:
            self._room -= size
            self._queue.put_nowait(message)

    def fail(self, failure: UpstreamError) -> None:
        """End it for a reason; what is in it already is still for the client."""
        self.failure = failure
        self.put(None)

    @property
    def given_up(self) -> bool:
        """Whether the client itself has cancelled everything that is still unanswered."""
        return self.waiting <= self.cancelled

    def give_up(self) -> None:
        if self.waiting and self.given_up:
            self.put(None)

    @property
    def complete(self) -> bool:
        """Whether every reply has come and been taken; one that did not fit has not."""
        return not self.waiting and self._queue.empty() and not self.overflow

    async def get(self) -> bytes | None:
        if self.overflow and self._queue.empty():
            raise Refused(Reason.OVERLOADED, "the client does not read what the server sends")
        message = await self._queue.get()
        self._room += len(message or b"")
        return message


class Link:
    """One process and the exchanges on it."""

    def __init__(
        self,
        process: Process,
        *,
        shared: bool,
        unclaimed: Callable[[bytes], None],
        ended: Callable[[], object] = lambda: None,
        hear: Hear | None = None,
    ) -> None:
        self._process = process
        self._shared = shared
        self._unclaimed = unclaimed
        self._ended = ended
        self._hear = hear
        # Set once a request was given up unanswered: the server may go on working on it, and speaking of it.
        self.haunted = False
        self._boxes: list[Box] = []
        self._numbers = itertools.count(1)
        # The id a request has on the process's side → its box and the id its client knows.
        self._asked: dict[RequestId, tuple[Box, RequestId]] = {}
        self._watcher = asyncio.create_task(self._until_ended())
        process.listen(self._on_line, self._on_too_large)

    @property
    def alive(self) -> bool:
        return not self._process.ended.is_set()

    @property
    def busy(self) -> bool:
        return bool(self._boxes)

    async def stop(self) -> None:
        await self._process.stop()
        self._watcher.cancel()
        self._end_all()

    async def send(self, entry: Entry) -> None:
        """Hand on a message that expects no reply."""
        await self._process.send(one_line(entry.raw))
        for message in entry.messages:
            if message.method == "notifications/cancelled" and isinstance(message.params, dict):
                self._give_up(message.params.get("requestId"))

    def _give_up(self, rpc_id: object) -> None:
        """A cancelled request need not be answered: its exchange ends even if the server stays silent."""
        asked = self._asked.get(rpc_id) if isinstance(rpc_id, (int, str)) else None
        if asked is not None:
            asked[0].cancelled.add(asked[1])
            asyncio.get_running_loop().call_later(_CANCEL_GRACE, asked[0].give_up)

    def open(self, entry: Entry, *, own: bool = False) -> Box:
        """A box for a request: it receives everything the process says for it, once it is submitted."""
        box = Box(entry, max(_BOX_MESSAGES * self._process.max_bytes, _BOX_BURST), own=own)
        raw = entry.raw
        if self._shared:
            assert isinstance(entry.message, Message)
            assert entry.message.id is not None
            number = next(self._numbers)
            raw = replace_member(raw, ("id",), _encode(number))
            raw = replace_member(raw, ("params", "_meta", "progressToken"), _encode(number))
            self._asked[number] = (box, entry.message.id)
        else:
            for rpc_id in box.waiting:
                if rpc_id in self._asked:
                    raise Refused(Reason.INVALID_REQUEST, "a request with this id is under way in this session")
            self._asked.update({rpc_id: (box, rpc_id) for rpc_id in box.waiting})
        self._boxes.append(box)
        box.line = one_line(raw)
        return box

    async def submit(self, box: Box) -> None:
        """Send the request; waits while the process does not read."""
        line, box.line = box.line, b""
        await self._process.send(line)

    def close(self, box: Box) -> None:
        """Done with a box; what is still unanswered is cancelled at the process."""
        unanswered = self._drop(box)
        if box.line:
            return  # never submitted
        self.haunted = self.haunted or bool(unanswered)
        if not self.alive:
            return
        for number in unanswered:
            notice = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": number, "reason": "the client closed the connection"},
            }
            with contextlib.suppress(UpstreamError, ConnectionError, RuntimeError):
                self._process.post(_encode(notice) + b"\n")

    def _drop(self, box: Box) -> list[RequestId]:
        if box in self._boxes:
            self._boxes.remove(box)
        numbers = [number for number, (owner, _) in self._asked.items() if owner is box]
        for number in numbers:
            del self._asked[number]
        return numbers

    async def _until_ended(self) -> None:
        await self._process.ended.wait()
        self._end_all()

    def _end_all(self) -> None:
        for box in self._boxes:
            box.put(None)
        self._ended()

    async def _on_line(self, line: bytes) -> None:
        batch = parts(line)
        for part in [line] if batch is None else batch:
            self._route(part)

    def _on_too_large(self, line: TooLarge) -> None:
        """A reply that was not kept: who asked is told, or all who wait if nobody can tell whose it was."""
        named = line.names()
        if not named.reply:
            return
        failure = UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        if named.id is not None:
            asked = self._asked.pop(named.id, None)
            if asked is not None:
                asked[0].fail(failure)
            return
        for box in self._boxes:
            if box.waiting:
                box.fail(failure)

    def _route(self, line: bytes) -> None:
        seen = peek(line)
        if seen is None:
            log.warning("message dropped: not JSON-RPC", extra={"fields": {"server": self._process.name}})
            return
        if seen.is_reply:
            self._reply(line, seen)
            return
        if self._hear is not None:
            self._hear(line)
        if (owner := self._owner(line, seen)) is not None:
            owner[0].put(owner[1])
        elif not self._shared:
            self._unclaimed(line)
        else:
            log.debug("message dropped: belongs to no single client", extra={"fields": {"method": seen.method}})

    def _reply(self, line: bytes, seen: Peek) -> None:
        asked = self._asked.pop(seen.id, None) if seen.id is not None else None
        if asked is None:
            return  # the client left meanwhile, or nobody asked
        box, client_id = asked
        if self._shared:
            try:
                line = replace_member(line, ("id",), _encode(client_id))
                if _SUBSCRIPTION.encode() in line:
                    line = replace_member(line, ("result", "_meta", _SUBSCRIPTION), _encode(client_id))
            except MessageError:
                line = error_reply(client_id, UpstreamError(Reason.UPSTREAM_GARBAGE, "the reply holds a key twice"))
        box.waiting.discard(client_id)
        box.put(line)

    def _owner(self, line: bytes, seen: Peek) -> tuple[Box, bytes] | None:
        """The box a notification or a request of the server belongs to, and the message as that client knows it."""
        for path in (_PROGRESS_PATH, _SUBSCRIPTION_PATH):
            try:
                span = member_span(line, path)
            except MessageError:  # a key twice: nobody can tell what it says
                return None
            if span is not None:
                return self._named(line, path, span)
        # A client that has its reply may have left the stream: what comes later is not for that stream.
        waiting = [box for box in self._boxes if box.waiting and not box.own]
        if self._shared and (seen.id is not None or self.haunted or len(waiting) != 1):
            return None
        # 2025-11-25: what a server sends while it works on a request goes on that request's stream.
        return (waiting[-1], line) if waiting else None

    def _named(self, line: bytes, path: tuple[str, ...], span: tuple[int, int]) -> tuple[Box, bytes] | None:
        """The box whose progress token or subscription a message names."""
        try:
            value = _decode_id(line[span[0] : span[1]])
        except (msgspec.MsgspecError, UnicodeDecodeError):  # neither a number nor a text that anybody gave
            return None
        if not self._shared:
            for box in self._boxes:
                if box.waiting and value in (box.tokens if path is _PROGRESS_PATH else box.waiting):
                    return box, line
            return None
        asked = self._asked.get(value) if type(value) is int else None
        if asked is None:
            return None
        box, client_id = asked
        original = next(iter(box.tokens), client_id) if path is _PROGRESS_PATH else client_id
        return box, line[: span[0]] + _encode(original) + line[span[1] :]


def _token(message: Message) -> RequestId | None:
    token = message.meta.get("progressToken")
    return token if isinstance(token, (str, int)) else None
