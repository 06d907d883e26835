"""An approved call, whichever way it was approved, has a receipt that proves the signature to somebody without a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION

from callgate.approval.overview import fingerprint
from callgate.cli import run
from callgate.sdk.authenticators.software import Unattended
from callgate.sdk.client import ApprovalClient, Done
from support.clients import PATIENCE
from support.persons import ApprovalSite, approval_site
from support.sessions import until
from support.table import rows


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("receipts"), audit={"arguments": "whole"}) as running:
        yield running


async def by_ceremony(site: ApprovalSite, identity: str) -> None:
    """The client shows and signs."""

    async def show(_prompt: object) -> None: ...

    client = Client(site.transport("web"), mode=LATEST_MODERN_VERSION, read_timeout_seconds=PATIENCE)
    async with ApprovalClient(client, Unattended(site.person.key), show=show) as caller:
        assert isinstance(await caller.call_tool("wipe", {"id": identity}), Done)


async def on_the_page(site: ApprovalSite, identity: str) -> None:
    """The client waits, the person signs on the page."""
    async with Client(site.transport("web"), mode=LATEST_MODERN_VERSION, read_timeout_seconds=PATIENCE) as client:
        calling = asyncio.create_task(client.call_tool("wipe", {"id": identity}))
        await site.person.approve(await site.person.waiting("wipe"))
        await calling


@rows("way", [by_ceremony, on_the_page])
async def test_the_signature_is_proven_from_the_receipt_alone(site, way, tmp_path, monkeypatch, capsys):
    await way(site, way.__name__)
    (decision,) = [
        one for one in site.decisions if one["verdict"] == "allow" and one["arguments"]["value"] == {"id": way.__name__}
    ]
    path = make_receipt(site, decision["call"], tmp_path)
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    assert run(["audit", "verify", "--receipt", path.name, "--json"]) == 0
    approval = json.loads(capsys.readouterr().out)["approval"]
    assert approval["proven"]["whole"], approval["not_verified"]
    assert approval["proven"]["user"] == site.person.name
    (held,) = await site.person.approvals.shelf.credentials(site.person.name)
    assert approval["proven"]["fingerprint"] == fingerprint(held.public_key)
    assert len(approval["not_verified"]) == 2


def make_receipt(site: ApprovalSite, call: str, folder: Path) -> Path:
    path = folder / "receipt.json"
    # The gateway takes a moment to put a record into the tree.
    until(lambda: run(["audit", "receipt", call, "-c", str(site.gateway.config), "-o", str(path)]) == 0)
    return path
