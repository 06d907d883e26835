"""Places of connected servers: counted over all gateways, given back, and lost by who does not keep them."""

from msgspec.structs import replace

from support.pin_store import NOW, SECOND, place
from support.table import rows

MINUTE = 60 * SECOND


async def test_as_many_servers_as_allowed_find_a_place(pins):
    for name in ("a", "b", "c"):
        assert await pins.connect(place(name), NOW, 3) is True
    assert await pins.connect(place("d"), NOW, 3) is False
    # Who has a place keeps it.
    assert await pins.connect(place("a", until=NOW + 5 * MINUTE), NOW, 3) is True
    assert await pins.connected(NOW) == [place("a", until=NOW + 5 * MINUTE), place("b"), place("c")]


async def test_no_place_at_all(pins):
    assert await pins.connect(place("a"), NOW, 0) is False
    assert await pins.connected(NOW) == []


async def test_a_place_ends_by_itself(pins):
    assert await pins.connect(place("a"), NOW, 1)
    assert not await pins.connect(place("b"), NOW + MINUTE - 1, 1)
    assert await pins.connected(NOW + MINUTE - 1) == [place("a")]
    assert await pins.connected(NOW + MINUTE) == []
    assert await pins.connect(place("b", until=NOW + 2 * MINUTE), NOW + MINUTE, 1)
    assert not await pins.connect(place("a", until=NOW + 2 * MINUTE), NOW + MINUTE, 1)


async def test_several_gateways_in_front_of_one_server_take_one_place(pins):
    for gateway in ("one", "two", "three"):
        assert await pins.connect(place("a", gateway=gateway), NOW, 2)
    assert await pins.connect(place("b", gateway="two"), NOW, 2)
    assert not await pins.connect(place("c", gateway="two"), NOW, 2)
    assert len(await pins.connected(NOW)) == 4


async def test_another_identity_under_the_same_name_is_another_server(pins):
    assert await pins.connect(place("a", gateway="one", server_id="1"), NOW, 1)
    assert not await pins.connect(place("a", gateway="two", server_id="2"), NOW, 1)
    assert await pins.connect(place("a", gateway="two", server_id="2"), NOW, 2)
    assert not await pins.connect(place("b", gateway="two"), NOW, 2)


async def test_a_server_that_is_updated_keeps_the_place_of_its_gateway(pins):
    assert await pins.connect(place("a", server_id="1"), NOW, 1)
    assert await pins.connect(place("a", server_id="2"), NOW, 1)
    assert [one.server_id for one in await pins.connected(NOW)] == ["2"]


async def test_groups_are_counted_apart(pins):
    assert await pins.connect(place("a", group="x"), NOW, 1)
    assert await pins.connect(place("b", group="y"), NOW, 1)
    assert not await pins.connect(place("c", group="x"), NOW, 1)
    # A server that moves leaves its place behind.
    assert await pins.connect(place("b", group="z"), NOW, 1)
    assert await pins.connect(place("c", group="y"), NOW, 1)


async def test_places_are_given_back(pins):
    for gateway in ("one", "two"):
        for name in ("a", "b"):
            assert await pins.connect(place(name, gateway=gateway), NOW, 2)
    await pins.disconnect("one", "a")
    assert [(one.gateway, one.name) for one in await pins.connected(NOW)] == [("two", "a"), ("one", "b"), ("two", "b")]
    await pins.disconnect("two")
    assert [(one.gateway, one.name) for one in await pins.connected(NOW)] == [("one", "b")]
    assert await pins.connect(place("c"), NOW, 2)
    await pins.disconnect("nobody")
    await pins.disconnect("one", "nothing")
    assert len(await pins.connected(NOW)) == 2


async def test_when_fewer_are_allowed_the_right_number_is_left(pins):
    names = [f"server-{number}" for number in range(6)]
    for name in names:
        assert await pins.connect(place(name), NOW, 6)
    kept = [name for name in names if await pins.connect(place(name), NOW, 2)]
    assert len(kept) == 2
    assert [one.name for one in await pins.connected(NOW)] == kept


@rows("odd", ["a\x00b", "\udcff", "ü" * 100_000, ""], ids=["nul", "half", "long", "nothing"])
async def test_names_may_be_anything(pins, odd):
    strange = replace(place(odd), group=odd, server_id=odd, gateway=odd)
    assert await pins.connect(strange, NOW, 1)
    assert not await pins.connect(place("a", group=odd), NOW, 1)
    assert await pins.connected(NOW) == [strange]
    await pins.disconnect(odd, odd)
    assert await pins.connected(NOW) == []
