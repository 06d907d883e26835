"""Another program's page on this machine opens the stream with the person's cookie: to listen, or to use its places up."""

from support.console import live_console
from support.table import rows


@rows("path", ["/events", "/events/now"])
@rows("site", ["cross-site", "same-site"])
async def test_the_browser_says_who_asks_and_it_is_refused(path, site):
    async with live_console() as console:
        anna = await console.sign_in()
        answer = await console.get(path, anna, **{"sec-fetch-site": site, "accept": "text/event-stream"})
        assert (answer.status, answer.reason) == (403, "forged_request")


async def test_no_answer_lets_another_origin_read_it():
    async with live_console() as console:
        anna = await console.sign_in()
        answer = await console.get("/events/now", anna, origin="http://localhost:1", accept="application/json")
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_a_name_that_resolves_to_us_gets_nothing():
    """DNS rebinding: the page of evil.example asks its own host, which is us by now."""
    async with live_console() as console:
        anna = await console.sign_in()
        answer = await console.get("/events", anna, host="evil.example", accept="text/event-stream")
        assert answer.reason == "host_not_allowed"
