"""A captured request, sent again to any gateway on the store, at any time at which its signature would hold."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from callgate.agents.keys import PublicKey
from callgate.agents.model import Signed
from callgate.agents.signing import Signer
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from callgate.store import SqlAgents, Store
from support.agents_race import NOW, SCOPE
from support.racing import started
from support.registry import requirement
from support.table import rows

REQUEST = Signed("POST", "https", "gate.example", "/mcp", None, ((b"content-type", b"application/json"),), b"{}")


class Gateways:
    """Two gateways with a store in common, and a clock that both read."""

    def __init__(self, stores, window):
        self.now = NOW / 1000
        self.signer = Signer(Ed25519PrivateKey.generate(), clock=lambda: self.now)
        key = PublicKey.read(self.signer.jwk)
        settings = VerifySettings(max_window=window)

        async def lookup(keyid, _directory):
            return key if keyid == key.thumbprint else None

        self.gateways = [Verifier(settings, lookup, SqlAgents(store), lambda: self.now) for store in stores]
        self.shelf = SqlAgents(stores[0])

    def request(self, nonce, expires_in):
        added = self.signer.sign(REQUEST, nonce=nonce, expires_in=expires_in)
        headers = tuple((name.lower().encode(), value.encode()) for name, value in added.items())
        return replace(REQUEST, headers=REQUEST.headers + headers)

    async def told(self, gateway, request):
        try:
            return (await self.gateways[gateway].verify(request)).nonce
        except Refused as refused:
            return refused.reason, refused.status


@pytest.fixture
async def gateways(url):
    stores = [Store.open(url) for _ in range(2)]
    yield lambda window: Gateways(stores, window)
    for store in stores:
        await store.close()


windows = rows("window", [60, 480, 3600])


@requirement("WB-017", "WB-066", "WB-087")
@windows
async def test_it_passes_once_whatever_the_window_is(gateways, window):
    gateway = gateways(window)
    captured = gateway.request("captured", window)
    replayed = (Reason.NONCE_REPLAY, 401)
    assert await gateway.told(0, captured) == "captured"
    for passed in (0, window / 2, window - 1, window):
        gateway.now = NOW / 1000 + passed
        await gateway.shelf.prune(round(gateway.now * 1000))
        assert await gateway.told(0, captured) == replayed
        assert await gateway.told(1, captured) == replayed
    gateway.now += 60
    assert await gateway.told(1, captured) == (Reason.SIGNATURE_EXPIRED, 401)


@windows
async def test_a_forged_request_uses_up_nobodys_nonce(gateways, window):
    gateway = gateways(window)
    good = gateway.request("wanted", window)
    assert await gateway.told(0, replace(good, path="/other")) == (Reason.SIGNATURE_INVALID, 401)
    assert await gateway.told(1, good) == "wanted"


WRITER = """
import asyncio, sys
from callgate.store import SqlAgents, Store
from support.agents_race import NOW, SCOPE

async def main():
    shelf = SqlAgents(Store.open(sys.argv[1]))
    for number in range(10**9):
        assert await shelf.take_nonce(SCOPE, f"{number}", NOW, NOW)
        print(number, flush=True)

asyncio.run(main())
"""


@requirement("WB-087")
@pytest.mark.skipif(os.name == "nt", reason="kill -9")
async def test_a_nonce_that_was_taken_outlives_kill_9(url, tmp_path):
    after = 100
    process = started(WRITER, tmp_path, url)
    told = [int(process.stdout.readline()) for _ in range(after)]
    process.kill()
    process.communicate()
    store = Store.open(url)
    shelf = SqlAgents(store)
    assert told == list(range(after))
    assert not any([await shelf.take_nonce(SCOPE, f"{number}", NOW, NOW) for number in told])
    await store.close()
