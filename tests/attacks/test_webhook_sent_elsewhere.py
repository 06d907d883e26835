"""The receiver of a webhook sends the gateway on to an address inside its network, or holds it up for ever."""

import asyncio
import contextlib
import logging
import socket

import pytest

from callgate.app import notifications as module
from callgate.app.notifications import Webhook
from callgate.config import Secret, parse
from callgate.config.notify import webhook_key
from callgate.errors import ConfigError
from support.listening import receiving
from support.table import rows
from support.webhooks import SECRET

KEY = webhook_key(SECRET)


@rows("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status, monkeypatch, caplog):
    monkeypatch.setattr(module, "_TRIES", 1)
    with receiving() as inside, receiving(status, headers={"location": inside.url}) as outside:
        hook = Webhook(Secret(outside.url), KEY)
        hook.send({"event": "x"})
        await asyncio.to_thread(outside.next)
        while not caplog.records:
            await asyncio.sleep(0.01)
        await hook.close()
        assert inside.got.empty()


@rows(
    "url",
    [
        "http://hooks.example/x",
        "http://10.0.0.7/x",
        "http://169.254.169.254/latest",
        "http://localhost.evil.example/x",
        "http://127.0.0.1.evil.example/x",
        "http://127.0.0.1@evil.example/x",
        "http://0.0.0.0/x",
        "http://[2001:db8::1]/x",
        "ftp://hooks.example/x",
        "file:///etc/passwd",
        "https://",
    ],
)
def test_an_address_in_the_clear_on_another_machine_is_no_webhook(url):
    with pytest.raises(ConfigError) as raised:
        parse(f'[notify]\nwebhook = "{url}"\nsecret = "{SECRET}"\n')
    assert "notify.webhook" in str(raised.value)


@rows("url", ["https://hooks.example/x", "http://127.0.0.1:9/x", "http://[::1]:9/x", "http://localhost:9/x"])
def test_https_and_this_machine_are_taken(url):
    assert parse(f'[notify]\nwebhook = "{url}"\nsecret = "{SECRET}"\n').notify.webhook == Secret(url)


async def test_a_receiver_that_never_answers_holds_nothing_up_and_fills_nothing(monkeypatch, caplog):
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.2)
    caplog.set_level(logging.CRITICAL)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as mute:
        hook = Webhook(Secret(f"http://127.0.0.1:{mute.getsockname()[1]}/"), KEY, hands=4)
        for number in range(5_000):
            hook.send({"number": number})
        await asyncio.sleep(0)
        assert len(hook._waiting) <= module._WAITING_MAX
        # The end is bounded too.
        async with asyncio.timeout(20):
            await hook.close()


async def test_neither_the_secret_nor_the_address_reaches_the_log(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(module, "_TRIES", 1)
    with receiving(500) as receiver:
        hook = Webhook(Secret(f"{receiver.url}?token=hidden-token"), KEY)
        hook.send({"event": "x"})
        await asyncio.to_thread(receiver.next)
        while not caplog.records:
            await asyncio.sleep(0.01)
        await hook.close()
    said = "".join(str(one.__dict__) for one in caplog.records)
    assert "alert not delivered" in said
    assert "hidden-token" not in said
    assert SECRET.removeprefix("whsec_") not in said
