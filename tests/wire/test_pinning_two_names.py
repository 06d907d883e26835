"""Two configured names for one package: one review, and both names stay on view."""

from __future__ import annotations

import json

from support.gateway import command, serving
from support.raw_clients import RawHttpClient, until
from support.shifting import Shifty, tool
from support.table import rows


@rows("last", ["docs", "notes"])
def test_neither_name_hides_the_other(tmp_path, last):
    server = Shifty(tmp_path / f"server of {last}")
    server.fresh(tool("read"))
    first = "notes" if last == "docs" else "docs"
    with serving(tmp_path, dict.fromkeys(("docs", "notes"), server.table), reviewed=False) as gateway:

        def typed(*words, status=0):
            return command(gateway.config, *words, status=status)

        visitors = {name: RawHttpClient(gateway.url(name), "legacy") for name in (first, last)}
        for name, visitor in visitors.items():
            assert visitor.names() == []
            until(lambda name=name: name in typed("tools", "list"), f"{name} was met")
        [row] = json.loads(typed("tools", "list", "--json"))
        assert {row["server"], *row["also_named"]} == {"docs", "notes"}
        both = (", ".join(pair) for pair in (("docs", "notes"), ("notes", "docs")))
        shown = typed("tools", "list") + typed("review", status=None) + typed("tools", "servers")
        assert any(names in shown for names in both)
        for name in ("docs", "notes"):
            assert "read" in typed("tools", "show", "--server", name, "--tool", "read")
        words = ("--server", first, "--tool", "read", "--hash", row["approval_hash"])
        typed("tools", "approve", *words)
        for visitor in visitors.values():
            visitor.until_open("read")
            assert visitor.names() == ["read"]
            visitor.close()
