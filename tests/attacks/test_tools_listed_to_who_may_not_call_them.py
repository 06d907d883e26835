"""An agent reads, in the list of tools, the names and texts of those that it may not call."""

import json

from support.agents_gate import TOOLS, known, reason, signer, site
from support.table import rows

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ALL = {one["name"] for one in TOOLS}


def listed(reply):
    assert reason(reply) == (200, "")
    body = json.loads(reply.body)
    return {one["name"] for one in (body[0] if isinstance(body, list) else body)["result"]["tools"]}


@rows("pinning", ["enforce", "off"])
def test_only_what_it_may_call(tmp_path, pinning):
    reader, other = signer(), signer()
    section = {
        "mode": "optional",
        "known": {
            "reader": known(reader, allow_tools=["read", "get_*"], deny_tools=["get_a"]),
            "other": known(other, servers={"two": {"deny_tools": ["drop_all"]}}),
        },
        "default": {"allow_tools": ["search"]},
    }
    with site(tmp_path, agents=section, pinning={"mode": pinning}) as running:

        def tools(by, server="one", message=LIST):
            return listed(running.send(by, json.dumps(message).encode(), server=server)) - {"callgate_pending"}

        assert tools(reader) == {"read", "get_product"}
        assert tools(reader, message=[LIST]) == {"read", "get_product"}
        assert tools(None) == {"search"}
        assert tools(other, "one") == ALL
        assert tools(other, "two") == ALL - {"drop_all"}
