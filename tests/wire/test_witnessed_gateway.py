"""A gateway whose log a witness cosigns, from its configuration to a receipt; and what it says while the witness is down."""

import contextlib
import json

import pytest

from callgate.audit.witness import Witness, WitnessFile
from callgate.cli import run
from callgate.keyring import Keyring
from support.auditing import open_log
from support.gateway import HARMLESS, serving
from support.persons import http_vault
from support.raw import ask
from support.sessions import Guest, until
from support.stores import ready
from support.witnessing import log_key, witness


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_from_the_configuration_to_a_receipt(kind, tmp_path, capsys):
    with ready(kind, tmp_path) as url, http_vault(tmp_path / "web") as vault:
        log = open_log(url, tmp_path / "keys")
        known = str(log_key(log))
        log.store.close_sync()
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(witness(tmp_path / "w", known))
            key = str(first.key)
            audit = {"witness_seconds": 1.0, "witnesses": {"one": {"url": first.url, "key": key}}}
            store = {"url": url, "keys_dir": str(tmp_path / "keys")}
            servers = {"web": {"url": vault.url, "trust": HARMLESS}}
            with serving(tmp_path, servers, store=store, audit=audit) as gateway:
                check(gateway, tmp_path, known, key, capsys)
                # A witness that is down stops no call, and is named.
                stack.close()
                client = Guest(gateway.url("web"), {})
                assert "content" in client.call("look")["result"]
                until(lambda: "one: " in ready_text(gateway))
                assert ready_text(gateway).startswith("ready\n")
                assert "content" in client.call("look")["result"]
                assert 'callgate_witness_failing{witness="one"} 1.0' in metrics(gateway)


def ready_text(gateway):
    return ask(f"{gateway.address}/readyz", None, {}, "GET").body.decode()


def metrics(gateway):
    return ask(f"{gateway.address}/metrics", None, {}, "GET").body.decode()


def check(gateway, folder, known, key, capsys):
    client, config = Guest(gateway.url("web"), {}), ["-c", str(gateway.config)]
    assert "content" in client.call("look")["result"]

    until(lambda: "cosigned up to record" in ready_text(gateway))
    assert ready_text(gateway).startswith("ready\n")
    assert "callgate_audit_cosigned_size" in metrics(gateway)
    capsys.readouterr()
    assert run(["audit", "list", "--json", *config]) == 0
    call = json.loads(capsys.readouterr().out.splitlines()[-1])["decision"]["call"]
    path = str(folder / "receipt.json")
    assert run(["audit", "receipt", call, "-o", path, *config]) == 0
    assert run(["audit", "verify", "--receipt", path, "--key", known, "--witness", key]) == 0
    assert "cosigned by w.example/one" in capsys.readouterr().out
    other = Witness(
        "w.example/x", _signer(folder / "x"), lambda: (), WitnessFile(folder / "x.db", "w.example/x", create=True)
    )
    assert run(["audit", "verify", "--receipt", path, "--witness", str(other.key)]) == 1
    assert "0 of these witnesses" in capsys.readouterr().err
    assert run(["audit", "verify", "--ask", *config]) == 0
    assert "cosigned by 1 witness," in capsys.readouterr().out


def _signer(folder):
    ring = Keyring(folder, environ={})
    ring.make("witness")
    return ring.current("witness").signer()
