"""A client that has a passkey made and gives it to the server (SEP-2672 §4.4.1 and §4.4.2)."""

from mcp import Client

from callgate.protocol import ENROLL_BEGIN, ENROLL_FINISH, TICKET
from callgate.sdk import authenticators
from callgate.sdk.client import ApprovalClient, Cancelled, Done, Enrolled, Failed, NotCalled, RefusedByServer, TimedOut
from support.ceremony import MODES, Person
from support.sep_server import RpcError, SepServer, serving
from support.table import rows


async def enrolled(server, person=None, ticket=None, mode="auto", **more):
    person = person or Person()
    async with serving(server) as url:
        client = ApprovalClient(Client(url, mode=mode), person, show=person.show, **more)
        async with client:
            return await client.enrol(ticket)


@rows("mode", MODES)
async def test_a_new_passkey_can_approve(mode):
    server = SepServer()
    person = Person()
    async with serving(server) as url, ApprovalClient(Client(url, mode=mode), person, show=person.show) as client:
        outcome = await client.enrol("the ticket")
        assert isinstance(await client.call_tool("delete_resource", {"resourceId": "x"}), Done)
    assert isinstance(outcome, Enrolled)
    (credential,) = await server.approvals.shelf.credentials()
    assert outcome.credential_id == credential.id
    assert credential.transports == ("usb",)
    (begun,), (finished,) = server.sent(ENROLL_BEGIN), server.sent(ENROLL_FINISH)
    assert begun["_meta"][TICKET] == "the ticket"
    assert finished["response"]["id"] == credential.id


@rows("method", [ENROLL_BEGIN, ENROLL_FINISH])
@rows("reason", ["credential_already_enrolled", "no_pending_enrollment", "verification_failed"])
async def test_a_refusal_is_told(method, reason):
    server = SepServer()

    async def refuse(_message):
        raise RpcError(-32001, "no", {"reason": reason})

    server.instead[method] = refuse
    outcome = await enrolled(server)
    assert isinstance(outcome, RefusedByServer)
    assert outcome.reason == reason


async def test_a_server_that_wants_a_ticket():
    server = SepServer()

    async def refuse(_message):
        raise RpcError(-32602, "no", {"reason": "enrolment_not_authorised"})

    server.instead[ENROLL_BEGIN] = refuse
    outcome = await enrolled(server)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "enrolment_not_authorised"
    assert "callgate enroll" in outcome.advice


class Ends(Person):
    def __init__(self, error):
        super().__init__()
        self.error = error

    async def create(self, prompt):
        raise self.error


@rows(
    ("error", "kind"),
    [
        (authenticators.Cancelled("no"), Cancelled),
        (authenticators.TimedOut("late"), TimedOut),
        (authenticators.NoPasskey("none"), NotCalled),
    ],
)
async def test_a_person_who_makes_none(error, kind):
    server = SepServer()
    assert isinstance(await enrolled(server, Ends(error)), kind)
    assert server.sent(ENROLL_FINISH) == []


@rows(
    "raw",
    [
        {},
        {"options": []},
        {"options": {}},
        {"options": {"rp": {}, "user": {"id": "AA", "name": "n"}, "challenge": "short", "pubKeyCredParams": []}},
        {"options": {"rp": {}, "user": {"id": "", "name": "n"}, "challenge": "A" * 43, "pubKeyCredParams": []}},
        {"options": {"rp": {}, "user": {"id": "AA", "name": "n"}, "challenge": "*" * 43, "pubKeyCredParams": []}},
        {
            "options": {
                "rp": {},
                "user": {"id": "AA", "name": "n"},
                "challenge": "A" * 43,
                "pubKeyCredParams": [{}] * 101,
            }
        },
    ],
)
async def test_options_that_are_none_reach_no_authenticator(raw):
    server = SepServer()

    async def lie(_message):
        return raw

    server.instead[ENROLL_BEGIN] = lie
    outcome = await enrolled(server, Ends(AssertionError("asked")))
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "challenge_malformed"
