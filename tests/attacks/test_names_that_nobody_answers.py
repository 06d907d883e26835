"""Name directories whose name servers never answer, until the gateway has no thread left to look up anything else."""

import asyncio
import socket
import threading

import pytest

from callgate.agents.directories import Directories, Sources
from callgate.agents.fetching import MOST, Caps, Fetcher, FetchFailed
from support.loop_clock import advance

STALLED = "stalled.example"
PATIENT = Caps(seconds=600)


@pytest.fixture
def silence(monkeypatch):
    """A resolver that waits for ever for some names, as the system's does for half a minute."""
    ended = threading.Event()
    waiting = []
    really = socket.getaddrinfo

    def look_up(host, *rest, **more):
        if str(host).endswith(STALLED):
            waiting.append(host)
            ended.wait()
            raise OSError("nobody answered")
        if host == "known.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]
        return really(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield waiting
    ended.set()


async def time_out(waiting, named):
    """What becomes of them all, once as many as can wait have waited for as long as they may."""
    ends = asyncio.gather(*named)
    while len(waiting) < MOST:
        await asyncio.sleep(0.001)
    advance(PATIENT.seconds)
    return await ends


async def stall(directories, waiting):
    named = [directories.key("x" * 43, f"https://{at}.{STALLED}") for at in range(80)]
    assert set(await time_out(waiting, named)) == {None}


async def test_everything_else_that_needs_a_thread_goes_on(silence):
    directories = Directories(Sources(caps=PATIENT))
    await stall(directories, silence)
    # Their time is over, and still nobody has answered: what else waits on threads must not wait for them.
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(lambda: "done") == "done"
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
    await directories.close()


async def test_an_operators_own_directory_is_still_looked_up(silence):
    known = "https://known.example/keys"
    directories = Directories(Sources(jwks_urls=(known,), caps=PATIENT))
    await stall(directories, silence)
    async with asyncio.timeout(60):
        told = await directories.refresh(known)
    # Looked up, and found to be inside: not merely no turn.
    assert (told.ok, told.failure) == (False, "not_public")
    await directories.close()


async def test_threads_do_not_grow_with_the_names(silence):
    before = threading.active_count()
    fetcher = Fetcher(caps=PATIENT)

    async def fetched(at):
        with pytest.raises(FetchFailed) as caught:
            await fetcher.fetch(f"https://{at}.{STALLED}/")
        return caught.value.reason

    reasons = await time_out(silence, map(fetched, range(200)))
    assert set(reasons) == {"too_slow", "busy"}
    assert threading.active_count() - before <= 32
