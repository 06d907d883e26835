"""The switch is turned while requests are under way: none of those that had not left yet slips through after it."""

import asyncio
import contextlib
import threading
from collections import Counter

import pytest

from support.agents_gate import INSIDE, PLAIN, call, known, reason, signer, site, web
from support.hostile import until
from support.raw import JSON_HEADERS
from support.records import ask
from support.registry import requirement

BLOCKED = (403, "blocked_by_policy")


def switched_on(running):
    ask(running.gateway, "block-all", "on")
    until(lambda: reason(running.send(None)) == BLOCKED, "the switch is on")


@requirement("WB-037", "WB-076", "WB-089")
async def test_signed_calls_that_are_half_sent(tmp_path):
    await half_sent(tmp_path, 60)


@pytest.mark.verify
async def test_a_thousand_signed_calls_that_are_half_sent(tmp_path):
    await half_sent(tmp_path, 1_000)


async def half_sent(tmp_path, count):
    """All are under way, and each lacks the end of its body when the switch is turned."""
    by = signer()
    section = {"mode": "required", "known": {"by": known(by, allow_tools=["search"])}}
    with site(tmp_path, agents=section, limits={"body_seconds": 600}) as running:
        body = call("search")
        made = [running.signed(by, body) for _ in range(count)]
        open_ = await asyncio.gather(*(begun(running.gateway.port, headers, body) for headers in made))
        # The first ten are finished before: this is what would become of all of them.
        ends = await asyncio.gather(*(finished(*one, body) for one in open_[:10]))
        assert Counter(ends) == {200: 10}
        assert len(running.got()) == 10

        await asyncio.to_thread(switched_on, running)
        ends = await asyncio.gather(*(finished(*one, body) for one in open_[10:]))
        assert Counter(ends) == {403: count - 10}
        assert len(running.got()) == 10


async def begun(port, headers, body):
    """A request without its last byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = {"Host": f"127.0.0.1:{port}", **JSON_HEADERS, **headers, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in (fields | {"Connection": "close"}).items())
    writer.write(f"POST /servers/one/mcp HTTP/1.1\r\n{head}\r\n".encode() + body[:-1])
    await writer.drain()
    return reader, writer


async def finished(reader, writer, body):
    """The status of the answer to the whole of it."""
    writer.write(body[-1:])
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1])


class Stalled(dict):
    """Pages that nobody gets until they are released."""

    def __init__(self, pages):
        super().__init__(pages)
        self.asked = []
        self.released = threading.Event()

    def get(self, path, default=None):
        self.asked.append(path)
        self.released.wait(60)
        return super().get(path, default)


WAYS = {
    "call": ("POST", call("search")),
    "batch": ("POST", call("search", "search")),
    "ping": ("POST", PLAIN),
    "notification": ("POST", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'),
    "answer": ("POST", b'{"jsonrpc":"2.0","id":1,"result":{}}'),
    "end-of-session": ("DELETE", None),
    "stream": ("GET", None),
}


@requirement("WB-037", "WB-076")
def test_requests_whose_directories_are_being_fetched(tmp_path):
    """They were let in at the door before, and hold once their keys are there; yet none goes any further."""
    with contextlib.ExitStack() as stack:
        webs = {way: stack.enter_context(web(tmp_path)) for way in WAYS}
        signers = {way: signer(pages.url) for way, pages in webs.items()}
        for way, by in signers.items():
            webs[way].publish(by)
        section = {"mode": "required", "signatures": {"enabled": True, "allow_addresses": INSIDE}}
        with site(tmp_path, webs["call"].env, agents=section) as running:
            stalled = [Stalled(pages.pages) for pages in webs.values()]
            for pages, kept in zip(webs.values(), stalled, strict=True):
                pages.pages = kept
            ends = {}

            def send(way):
                method, body = WAYS[way]
                ends[way] = reason(running.send(signers[way], body, method=method))

            threads = [threading.Thread(target=send, args=(way,)) for way in WAYS]
            for thread in threads:
                thread.start()
            until(lambda: all(kept.asked for kept in stalled), "all directories are asked")
            switched_on(running)
            for kept in stalled:
                kept.released.set()
            for thread in threads:
                thread.join(60)
            assert ends == dict.fromkeys(WAYS, BLOCKED)
            assert running.got() == []
