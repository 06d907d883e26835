"""What the server gets of a call that passed: decided once, whatever is heard of the server meanwhile."""

import json

from callgate.approval.pending import PendingApprovals
from callgate.approval.request_state import MultiRoundState, RequestStateSigner
from callgate.approval.requirements import Deployment, ServerApprovalPolicy, ToolCatalogue, read_tools
from callgate.approval.stage import ApprovalStage, ApprovalTimes, PassAsIs
from callgate.config import ServerApproval
from callgate.gate import Answer, Call, Context, Decision, Pass
from callgate.jsonrpc import Limits, parse
from support.table import rows

META = "io.modelcontextprotocol/verified-approval"
MARKED = {"name": "pay", "_meta": {META: {"required": "verified"}}}


class Scene:
    """A server that verifies approvals itself; the operator has the gateway verify `wipe`."""

    def __init__(self):
        self.catalogue = ToolCatalogue()
        self.catalogue.capable = True
        self.catalogue.learn_all(read_tools({"tools": [MARKED, {"name": "wipe"}]}))
        deployment = Deployment("urn:x", None)
        gating = ServerApprovalPolicy("vault", ServerApproval(tools=("wipe",)), self.catalogue, deployment)
        self.desk = ApprovalStage(
            None,
            gating=lambda _server: gating,
            deployment=deployment,
            approver=None,
            page=None,
            closed=None,
            seals=RequestStateSigner(lambda: (b"k" * 32,)),
            rounds=MultiRoundState(60),
            lobby=PendingApprovals(),
            decisions=None,
            times=ApprovalTimes(0.0, 60.0, 1.0),
        )

    def outgoing(self, tool, verdict):
        meta = {META: {"challengeId": "c"}}
        whole = {"name": tool, "arguments": {}, "_meta": meta}
        raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": whole}).encode()
        message = parse(raw, Limits())
        call = Call("c1", 1, tool, {}, b"{}", raw, meta, Context("vault", "http"))
        return json.loads(self.desk.outgoing(message, call, Decision((Answer("approval", verdict),)))[0].raw)


def grown(scene):
    scene.catalogue.hear(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')


def capable_after_all(scene):
    scene.catalogue.capable = None
    scene.catalogue.greeted(capable=True)


def incapable_after_all(scene):
    scene.catalogue.greeted(capable=False)


@rows("meanwhile", [lambda _scene: None, grown, capable_after_all, incapable_after_all])
def test_evidence_that_the_gateway_verified_goes_no_further(meanwhile):
    scene = Scene()
    meanwhile(scene)
    assert META not in scene.outgoing("wipe", Pass({"approval": {"user": "ann"}}))["params"]["_meta"]
    assert META not in scene.outgoing("pay", Pass({"approval": {"user": "ann"}}))["params"]["_meta"]


@rows("meanwhile", [lambda _scene: None, grown, capable_after_all, incapable_after_all])
def test_evidence_for_the_server_is_left_alone(meanwhile):
    scene = Scene()
    meanwhile(scene)
    assert META in scene.outgoing("pay", PassAsIs())["params"]["_meta"]
    assert META in scene.outgoing("pay", PassAsIs({"approval": {"user": "ann"}}))["params"]["_meta"]
