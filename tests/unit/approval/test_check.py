"""The check itself, without a wire: what other checks ask for, whose evidence is whose, and what is left on record."""

import asyncio
import contextlib
import json

import pytest

from callgate.approval import Approvals, ApprovalSettings, GrantUse, RelyingParty
from callgate.approval.pending import PendingApprovals, RequestDecisions
from callgate.approval.request_state import MultiRoundState, RequestStateSigner
from callgate.approval.requirements import Deployment, ServerApprovalPolicy, ToolCatalogue, read_tools
from callgate.approval.stage import ApprovalStage, ApprovalTimes, PassAsIs
from callgate.config import ServerApproval
from callgate.errors import Reason, Refused
from callgate.gate import Ask, Call, Pass, Refuse
from callgate.pipeline.context import ClientInfo, RequestContext, agent_of
from callgate.pipeline.dispatcher import SubstituteResult
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.memory import MemoryShelf
from support.table import rows

META = "io.modelcontextprotocol/verified-approval"
TOOLS = [{"name": "look"}, {"name": "wipe"}, {"name": "pay", "_meta": {META: {"required": "verified"}}}]
WANTED = (Ask("it sends secrets to a stranger"), Ask("it is late"))


class Line:
    can_say = True
    stopping = False
    waited = 0.0

    def __init__(self):
        self.said = []

    async def say(self, message):
        self.said.append(json.loads(message))

    async def breathe(self):
        pass

    async def gone(self):
        await asyncio.Event().wait()

    def aside(self):
        return contextlib.nullcontext()


class Scene:
    """A gateway's check on a shelf in memory, and ann with her passkey."""

    def __init__(self, *, capable=False, park=0.0, approver="ann", **section):
        self._person = approver
        self.approvals = Approvals(
            MemoryShelf(), RelyingParty("localhost", origins=("http://localhost:*",)), ApprovalSettings()
        )
        self.key = SoftwareAuthenticator("http://localhost:1")
        catalogue = ToolCatalogue()
        catalogue.capable = capable
        catalogue.learn_all(read_tools({"tools": TOOLS}))
        deployment = Deployment("urn:x", self.approvals.shelf.identity)
        gating = ServerApprovalPolicy("vault", ServerApproval(tools=("wipe",), **section), catalogue, deployment)
        self.closed = None
        self.check = ApprovalStage(
            self.approvals,
            gating=lambda _server: gating,
            deployment=deployment,
            approver=self._approver,
            page=self._page,
            closed=lambda: self.closed,
            seals=RequestStateSigner(lambda: (b"k" * 32,)),
            rounds=MultiRoundState(60),
            lobby=PendingApprovals(),
            decisions=RequestDecisions(self.approvals.shelf, self.approvals.now),
            times=ApprovalTimes(park, 60.0, 5.0),
        )

    async def _approver(self, _server):
        return self._person

    async def _page(self, request):
        return f"http://localhost/approve/{request}"

    async def enrol(self):
        begun = await self.approvals.begin_enrolment(await self.approvals.ticket("ann", by="test"))
        await self.approvals.finish_enrolment(self.key.create(begun["options"]))
        return self

    async def approve(self):
        (request,) = await self.approvals.shelf.requests("ann", states=("waiting",))
        issued = (await self.approvals.page_challenge(request)).result
        response = self.key.get(issued["requestOptions"])
        evidence = {"method": "webauthn", "challengeId": issued["challengeId"], "response": response}
        return await self.approvals.approve(request.id, evidence, by="ann")


@pytest.fixture
async def scene():
    return await Scene().enrol()


def call(tool, *, client=ClientInfo(), meta=None, params=None, line=None, **visit):  # noqa: B008 - frozen
    whole = {"name": tool, "arguments": {}, "_meta": meta or {}, **(params or {})}
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": whole}).encode()
    context = RequestContext("vault", "http", "session", line=line or Line(), greeted=client, meta=meta or {}, **visit)
    return Call("c1", 1, tool, {}, b"{}", raw, meta or {}, context)


async def test_a_tool_that_needs_nobody_passes_with_nothing_on_record(scene):
    assert await scene.check(call("look"), ()) == Pass()


async def test_what_another_check_asks_for_is_asked_of_a_person_and_told_why(scene):
    told = await scene.check(call("look"), WANTED)
    assert told.reason is Reason.MISSING_EVIDENCE
    request = await scene.approve()
    assert request.why == "it sends secrets to a stranger\nit is late"
    assert told.data["approval"]["request"] == request.id
    passed = await scene.check(call("look"), WANTED)
    assert isinstance(passed.use, GrantUse)
    assert passed.facts["approval"]["user"] == "ann"


async def test_a_client_that_does_the_ceremony_can_do_it_only_for_marked_tools(scene):
    """It could not get a challenge for one that only another check has doubts about."""
    aware = ClientInfo(ceremony=True)
    marked = await scene.check(call("pay", client=aware), ())
    assert (marked.reason, dict(marked.data)) == (Reason.MISSING_EVIDENCE, {})
    doubted = await scene.check(call("look", client=aware), WANTED)
    assert "approval" in doubted.data


async def test_evidence_for_a_server_that_verifies_itself_is_not_the_gateways(scene):
    relaying = await Scene(capable=True).enrol()
    theirs = {META: {"method": "webauthn", "challengeId": "theirs", "response": {}}}
    assert await relaying.check(call("pay", meta=theirs), ()) == PassAsIs()
    # Another check's doubts are settled on the page; the evidence is still the server's.
    assert (await relaying.check(call("pay", meta=theirs), WANTED)).reason is Reason.MISSING_EVIDENCE
    await relaying.approve()
    passed = await relaying.check(call("pay", meta=theirs), WANTED)
    assert isinstance(passed.use, GrantUse)
    assert isinstance(passed, PassAsIs)
    assert (await scene.check(call("pay", meta=theirs), ())).reason is Reason.MISSING_EVIDENCE


async def test_a_batch_is_refused_before_anything_is_used_up(scene):
    told = await scene.check(call("wipe"), ())
    assert told.reason is Reason.MISSING_EVIDENCE
    await scene.approve()
    refused = await scene.check(call("wipe", alone=False), ())
    assert refused.reason is Reason.BATCH_REFUSED
    assert (await scene.check(call("wipe"), ())).use is not None


async def test_a_modern_client_that_opens_urls_gets_a_result_instead_of_an_error(scene):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
    }
    told = await scene.check(call("wipe", meta=meta), ())
    assert isinstance(told, Refuse)
    assert isinstance(told.data, SubstituteResult)
    assert told.data.result["resultType"] == "input_required"
    (asked,) = told.data.result["inputRequests"].values()
    assert asked["params"]["url"].startswith("http://localhost/approve/")
    state = told.data.result["requestState"]
    await scene.approve()
    passed = await scene.check(call("wipe", meta=meta, params={"requestState": state}), ())
    assert isinstance(passed.use, GrantUse)


async def test_a_line_that_cannot_be_spoken_on_is_not_asked_anything(scene):
    line = Line()
    line.can_say = False
    told = await scene.check(call("wipe", client=ClientInfo(opens_urls=True), line=line), ())
    assert told.reason is Reason.MISSING_EVIDENCE
    assert line.said == []


async def test_a_closed_gate_ends_the_wait_with_its_own_reason():
    scene = await Scene(park=60.0).enrol()
    task = asyncio.create_task(scene.check(call("wipe"), ()))
    while not await scene.approvals.shelf.requests("ann", states=("waiting",)):
        await asyncio.sleep(0.001)
    scene.closed = Refused(Reason.BLOCKED_BY_POLICY)
    assert (await asyncio.wait_for(task, 60)).reason is Reason.BLOCKED_BY_POLICY


@rows(("name", "typed"), [("ann", "`callgate enroll ann`"), (None, "`callgate enroll NAME`")])
async def test_a_person_without_a_passkey_is_nobody_to_ask(name, typed):
    scene = Scene(approver=name)
    await scene.approvals.add_user("ann", by="test")
    told = await scene.check(call("wipe"), ())
    assert told.reason is Reason.APPROVAL_UNAVAILABLE
    assert typed in told.advice


def test_what_a_client_says_of_itself_is_kept_short_and_printable():
    said = {"name": "evil\u202e\x00" + "x" * 500, "version": ["1"]}
    client = ClientInfo.read(said, {"extensions": [], "elicitation": {"url": None}})
    assert client == ClientInfo("evil\ufffd\ufffd" + "x" * 114)
    context = RequestContext("vault", "http", "s" * 32, "\x07" * 9999, "127.0.0.1", line=Line(), greeted=client)
    assert agent_of(context) == {
        "client": client.name,
        "transport": "http",
        "peer": "127.0.0.1",
        "session": "s" * 8,
        "protocol": "\ufffd" * 120,
    }


@rows("info", [None, 7, [], {"name": None}])
@rows("capabilities", [None, 7, {"extensions": {META: None}}, {"elicitation": {"form": {}}}])
def test_a_client_that_says_nothing_of_use_is_nobody_known(info, capabilities):
    assert ClientInfo.read(info, capabilities) == ClientInfo()
