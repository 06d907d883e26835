"""Whoever has an agent's key for a moment signs its directory for a time to come, to have it hold for years."""

from callgate.agents.directories import Sources
from support.agent_directories import world
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
