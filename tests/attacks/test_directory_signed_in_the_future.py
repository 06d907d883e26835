"""Whoever has an agent's key for a moment signs its directory for a time to come, to have it hold for years."""

import json
import re
import time

from callgate.agents.directories import Sources
from callgate.agents.model import WELL_KNOWN, Signed
from callgate.agents.signing import Signer
from callgate.agents.verifying import SignedResponse
from callgate.cli import run
from callgate.sdk.sign import AgentKey
from support.agent_directories import world
from support.agents_gate import INSIDE, reason, site, web
from support.registry import requirement
from support.table import rows


@requirement("WB-092")
@rows("sources", [Sources(signed="required"), Sources()])
@rows(("ahead", "holds"), [(3600, False), (10, False), (3, True)])
async def test_beyond_what_clocks_differ_by_its_key_is_gone(sources, ahead, holds):
    async with world() as ground:
        signer = ground.signer()
        ground.server.publish("a.example", signer)
        ground.clock.now += ahead
        ground.server.sign("a.example", signer)
        ground.clock.now -= ahead
        found = await ground.directories(sources).key(signer.keyid, ground.server.url("a.example"))
        assert (found is not None) is holds


@requirement("WB-092")
def test_at_a_gateway_a_file_holds_for_as_long_as_it_lies_there(tmp_path, capsys):
    """What `callgate agents directory` prints is a file, its headers are those of an hour ago; no later ones count."""
    with web(tmp_path) as pages:
        path, key = tmp_path / "agent.pem", AgentKey.generate()
        key.write(path)
        agent = Signer(key.private, pages.url)
        capsys.readouterr()
        assert run(["agents", "directory", str(path), "--origin", pages.url]) == 0
        printed = capsys.readouterr()
        pages.pages[WELL_KNOWN] = printed.out.encode()
        as_printed = dict(line.split(": ", 1) for line in printed.err.splitlines() if re.match(r"[A-Z][\w-]+: ", line))

        def signed(shift):
            """The same headers, made that many seconds from now."""
            request = Signed("GET", "https", pages.url.removeprefix("https://"), WELL_KNOWN, None, ())
            by = Signer(key.private, None, clock=lambda: time.time() + shift)
            return by.sign_answer(SignedResponse(200, (), request, printed.out.encode()))

        section = {
            "mode": "required",
            "strangers": "admit",
            "signatures": {"enabled": True, "discovery": "trust", "allow_addresses": INSIDE},
        }
        told = {}
        for name, headers in {"printed": as_printed, "old": signed(-3600), "future": signed(3600)}.items():
            pages.headers[WELL_KNOWN] = {n: v for n, v in headers.items() if n not in ("Content-Type", "Cache-Control")}
            (folder := tmp_path / name).mkdir()
            with site(folder, pages.env, agents=section) as running:
                told[name] = reason(running.send(agent))
    assert json.loads(printed.out)["keys"]
    assert told == {"printed": (200, ""), "old": (200, ""), "future": (401, "unknown_keyid")}
