"""A server that lies to the approval client: nothing is shown, signed or sent that should not be."""

from callgate.protocol import CHALLENGE_CREATE
from callgate.sdk.client import CREDENTIALS, DISPLAY_CHARS, PAGES, TOOLS, Done, NotCalled
from support.ceremony import MODES, talking
from support.sep_server import SepServer, tool
from support.table import rows

ARGUMENTS = {"resourceId": "abc123"}


def without(name):
    return lambda envelope: {key: value for key, value in envelope.items() if key != name}


def having(**more):
    return lambda envelope: envelope | more


def options(**more):
    return lambda envelope: envelope | {"requestOptions": envelope["requestOptions"] | more}


CREDENTIAL = {"type": "public-key", "id": "AAAA"}

LIES = {
    "no id": without("challengeId"),
    "empty id": having(challengeId=""),
    "id of another type": having(challengeId=5),
    "long id": having(challengeId="x" * 1025),
    "no text": without("displayText"),
    "empty text": having(displayText=""),
    "text of another type": having(displayText=["Delete"]),
    "endless text": having(displayText="x" * (DISPLAY_CHARS + 1)),
    "no expiry": without("expiresAt"),
    "expiry of another type": having(expiresAt=1e400),
    "expiry in words": having(expiresAt="tomorrow"),
    "expiry beyond time": having(expiresAt="9999-99-99T00:00:00Z"),
    "no options": without("requestOptions"),
    "options of another type": having(requestOptions=[]),
    "no challenge": options(challenge=None),
    "short challenge": options(challenge="AAAA"),
    "challenge that is no base64url": options(challenge="*" * 86),
    "endless challenge": options(challenge="A" * 2000),
    "too many passkeys": options(allowCredentials=[CREDENTIAL] * (CREDENTIALS + 1)),
    "passkeys of another type": options(allowCredentials={"id": "x"}),
    "passkey without id": options(allowCredentials=[{"type": "public-key"}]),
    "passkey with an endless id": options(allowCredentials=[{"type": "public-key", "id": "A" * 2000}]),
    "domain of another type": options(rpId=5),
    "endless domain": options(rpId="x" * 254),
    "time of another type": options(timeout="soon"),
    "time that ran backwards": options(timeout=-1),
}  # fmt: skip


@rows("lie", LIES)
async def test_a_challenge_that_is_none_is_neither_shown_nor_signed(lie):
    server = SepServer()

    async def challenge(message):
        return LIES[lie](await server.challenge(message))

    server.instead[CHALLENGE_CREATE] = challenge
    async with talking(server) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "challenge_malformed"
    assert len(outcome.message) < 1000
    assert person.events == []
    assert server.sent("tools/call") == []


async def test_the_same_challenge_is_good_without_a_lie():
    server = SepServer()

    async def challenge(message):
        return having(more={"unknown": None})(await server.challenge(message))

    server.instead[CHALLENGE_CREATE] = challenge
    async with talking(server) as (client, _):
        assert isinstance(await client.call_tool("delete_resource", ARGUMENTS), Done)


@rows("mode", MODES)
async def test_a_listing_without_an_end_is_given_up(mode):
    server = SepServer()

    async def endless(message):
        return (await server.list_tools({})) | {"nextCursor": "0"}

    server.instead["tools/list"] = endless
    async with talking(server, mode) as (client, _):
        outcome = await client.call_tool("read_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "listing_too_large"
    assert len(server.sent("tools/list")) == PAGES
    assert server.sent("tools/call") == []


async def test_a_listing_with_too_many_tools_is_given_up():
    server = SepServer()
    server.tools = [tool(f"t{n}", inputSchema={"type": "object"}) for n in range(TOOLS + 1)]
    server.page_size = TOOLS + 1
    async with talking(server) as (client, _):
        outcome = await client.call_tool("t1", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "listing_too_large"


async def test_what_the_server_says_is_cut_before_it_is_told_on():
    from support.sep_server import RpcError

    server = SepServer()

    async def refuse(_message):
        raise RpcError(-32001, "x" * 100_000, {"reason": "challenge_expired"})

    server.instead["tools/call"] = refuse
    async with talking(server) as (client, _):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert len(outcome.said) < 1000
