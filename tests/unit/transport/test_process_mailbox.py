"""What waits for a slow client is bounded in number and in bytes."""

from callgate.errors import Reason
from callgate.jsonrpc import Message, MessageKind
from callgate.pipeline.dispatcher import Admitted
from callgate.transport.upstream.process import Mailbox


def box(most_bytes: int) -> Mailbox:
    return Mailbox(Admitted(Message(MessageKind.REQUEST, b"", "tools/call", 1)), most_bytes)


async def ends_in_an_error(box: Mailbox) -> bool:
    return await box.get() is None and box.failure is not None and box.failure.reason is Reason.OVERLOADED


async def test_a_few_large_messages_fill_it():
    """A thousand messages may wait, but not a thousand of the largest size."""
    full = box(1000)
    for letter in (b"a", b"b", b"c", b"d"):
        full.put(letter * 400)
    assert [await full.get(), await full.get()] == [b"a" * 400, b"b" * 400]
    assert await ends_in_an_error(full)


async def test_after_a_gap_nothing_follows():
    """What came after a message that did not fit would be taken for the whole."""
    full = box(1000)
    full.put(b"a" * 900)
    full.put(b"b" * 900)
    assert await full.get() == b"a" * 900
    full.put(b"c")
    full.put(None)
    assert await ends_in_an_error(full)


async def test_one_that_is_read_never_fills():
    read = box(1000)
    for _ in range(50):
        read.put(b"x" * 900)
        assert await read.get() == b"x" * 900
    read.put(None)
    assert await read.get() is None


async def test_many_small_messages_fill_it():
    full = box(10**9)
    for _ in range(2001):
        full.put(b"x")
    for _ in range(2000):
        await full.get()
    assert await ends_in_an_error(full)
