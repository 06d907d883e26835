"""A server verifies approvals only for clients that say they can; another client's greeting must not vouch for mine."""

import pytest

from support.persons import MARK, approval_site
from support.sessions import Guest
from support.table import rows


@pytest.fixture
def site(tmp_path):
    with approval_site(tmp_path, "shy", approval={"park_seconds": 0}) as running:
        yield running


@rows("server", ["web", "pipe"])
def test_somebody_elses_session(site, server):
    plain = Guest.arrive(site.gateway.url(server), "legacy")
    assert plain.call("pay", 1, id="a")["error"]["data"]["reason"] == "missing_evidence"
    Guest.arrive(site.gateway.url(server), "legacy", extensions={MARK: {}})
    assert plain.call("pay", 2, id="b")["error"]["data"]["reason"] == "missing_evidence"
    assert site.vault(server).calls == []
