"""The door for callers and the gate's check: what breaks refuses, and nothing passes around the door."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace

import pytest

from callgate.agents.limits import MemoryLimiter
from callgate.agents.model import Signed
from callgate.agents.stage import AcceptedProofs, AgentCheck, RequestAuthenticator
from callgate.app.agents import call_limits, make_acl
from callgate.config import parse
from callgate.errors import Reason, Refused, StoreUnavailable
from callgate.gate import NOBODY, Call, Caller, CallerRefused, Context, Pass, Refuse
from callgate.transport.http.exchange import Exchange
from support.table import rows

ALICE = Caller("alice", "web-bot-auth", "key", digest_verified=True)
SIGNED = [(b"host", b"gate.example"), (b"signature", b"s"), (b"signature-input", b"i")]


class Ways:
    """Verifies what the test says."""

    kya_header = b"kyapay-token"

    def __init__(self, outcome=ALICE):
        self.outcome = outcome
        self.requests = []

    async def signed(self, request, permitted, *, body, later=False):
        self.requests.append((request, body))
        if self.outcome is ...:
            await asyncio.Event().wait()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome, not permitted(self.outcome.id), ()

    token = api_key = None

    async def attested(self, headers, caller):
        raise Refused(Reason.KYA_INVALID, status=500)

    def challenges(self, _refused, _resource=""):
        return ()


def exchange(headers=SIGNED, method="POST", **scope):
    made = {"type": "http", "method": method, "path": "/mcp", "headers": list(headers), "client": ("10.0.0.1", 1)}
    return Exchange(made | scope, None, None)


def door(ways=None, text="", told=None, **ways_open):
    agents = parse(text, environ={}).agents
    return RequestAuthenticator(
        AcceptedProofs(**{"required": True, "signatures": True, **ways_open}),
        lambda: ways or Ways(),
        acl=make_acl(agents),
        limits=call_limits(agents, MemoryLimiter(clock=lambda: 0)),
        external=None,
        names=("gate.example",),
        seconds=0.05,
        proved=defaultdict(lambda: SimpleNamespace(value=0)),
        tell=(lambda *_: None) if told is None else lambda *one: told.append(one),
    )


def come_in(at, made=None, tools=(), body=b""):
    return asyncio.run(at.authenticate(made or exchange(), "one", body, tools))


@rows(
    ("outcome", "reason"),
    [
        (StoreUnavailable("gone"), Reason.STORE_UNAVAILABLE),
        (ValueError("a secret"), Reason.CHECK_FAILED),
        (..., Reason.CHECK_TIMEOUT),
        (Refused(Reason.SIGNATURE_INVALID), Reason.SIGNATURE_INVALID),
    ],
)
def test_what_breaks_refuses(outcome, reason):
    told = []
    with pytest.raises(CallerRefused) as caught:
        come_in(door(Ways(outcome), told=told))
    assert caught.value.refused.reason is reason
    assert "secret" not in caught.value.refused.message
    assert caught.value.identity == NOBODY
    assert told == [("none", reason)]


def test_the_request_is_seen_as_its_sender_wrote_it():
    ways = Ways()
    come_in(door(ways), exchange(path="/a b", raw_path=b"/a%20b", query_string=b"x=%31"), body=b"{}")
    come_in(door(ways), exchange(method="DELETE"))
    first = Signed("POST", "http", "gate.example", "/a%20b", "x=%31", tuple(SIGNED), b"{}")
    second = Signed("DELETE", "http", "gate.example", "/mcp", None, tuple(SIGNED), b"")
    assert ways.requests == [(first, True), (second, False)]


def test_a_verifier_that_forgets_the_digest_does_not_let_a_body_slip_in():
    loose = Ways(Caller("alice", "web-bot-auth", "key"))
    with pytest.raises(CallerRefused) as caught:
        come_in(door(loose, digest=True))
    assert caught.value.refused.reason is Reason.CONTENT_DIGEST_REQUIRED
    assert come_in(door(loose)).caller is not None


def test_a_batch_counts_as_what_it_is_and_one_that_never_fits_is_told_so():
    at = door(text="[agents.default]\nper_minute = 3\nburst = 3")
    assert come_in(at, tools=["a", "b"]).barred is None
    held = come_in(at, tools=["a", "b"])
    assert held.barred is not None
    assert held.barred.reason is Reason.RATE_LIMITED
    assert dict(held.answering)[b"ratelimit-policy"] == b'"agent";q=3;w=60'
    never = come_in(at, tools=["a", "b", "c", "d"])
    assert never.barred is not None
    assert dict(never.answering)[b"retry-after"] == b"60"
    assert come_in(at, tools=["a"]).barred is None


def test_a_token_of_a_call_is_the_gates_to_refuse_and_that_of_anything_else_the_doors():
    at = door(kya=True)
    held = come_in(at, tools=["a"])
    assert held.barred is not None
    assert held.barred.status == 500
    with pytest.raises(CallerRefused) as caught:
        come_in(at)
    assert caught.value.refused.reason is Reason.KYA_INVALID


# ---- the gate's check ----


def judged(caller=None, *, text="", required=True, barred=None, transport="http", tool="read"):
    context = Context("one", transport, caller=caller, barred=barred)
    check = AgentCheck(make_acl(parse(text, environ={}).agents), required=required)
    return check.at_once(Call("c", 0, tool, {}, b"{}", b"", {}, context))


def test_who_came_around_the_door_is_refused():
    assert judged() == Refuse(Reason.CREDENTIALS_REQUIRED)
    assert judged(ALICE) == Pass()
    assert judged(required=False) == Pass()


def test_who_starts_the_gateway_on_a_pipe_need_not_say_who_they_are_but_has_the_default_rules():
    assert judged(transport="stdio") == Pass()
    refused = judged(transport="stdio", text='[agents.default]\ndeny_tools = ["read"]')
    assert isinstance(refused, Refuse)
    assert refused.reason is Reason.TOOL_DENIED


def test_what_the_door_held_against_a_call_is_said_with_its_status():
    refused = judged(ALICE, barred=Refused(Reason.KYA_INVALID, "no verifier", status=500, data={"a": 1}))
    assert isinstance(refused, Refuse)
    assert (refused.reason, refused.status, refused.data) == (Reason.KYA_INVALID, 500, {"a": 1})
