"""A server marks a tool as needing a person, has it approved, and drops the mark later: the person is asked all the same."""

import contextlib

from support.gateway import serving
from support.pinning import PINNING, Site
from support.raw_clients import Way, until
from support.registry import requirement
from support.shifting import listening, tool
from support.table import rows

MARK = {"_meta": {"io.modelcontextprotocol/verified-approval": {"required": "verified"}}}


@contextlib.contextmanager
def gateway(directory, web):
    approval = {"enabled": True, "park_seconds": 0}
    with serving(directory, {"web": web.table}, pinning=PINNING, approval=approval) as running:
        site = Site(directory, running, {"web": web})
        yield site
        site.leave()


@requirement("TP-015")
@rows("era", ["legacy", "modern"])
def test_a_tool_stays_gated_although_the_gateway_never_saw_the_mark(tmp_path, era):
    way = Way("serve", era, "web")
    with listening(tmp_path / "web") as web:
        web.fresh(tool("pay", **MARK))
        with gateway(tmp_path, web) as site:
            visitor = site.visit(way)
            visitor.names()
            site.approve("web", "pay")
            visitor.until_closed("pay", "approval_unavailable")
        web.be(tools=[tool("pay")])
        # Another process, which never heard of the mark.
        with gateway(tmp_path, web) as site:
            visitor = site.visit(way)
            assert visitor.names() == ["pay"]
            assert visitor.reason("pay") == "approval_unavailable"
            assert "pay" not in web.called
            until(lambda: site.deeds("pinning.changed", tool="pay", what="beside"), "an alert")
