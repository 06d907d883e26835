"""`callgate grants`: what can be used of what people have signed beforehand, whole, and taken back."""

from callgate.approval.delegation import GrantCondition, GrantedAgent, GrantTerms
from callgate.approval.model import ApprovalPolicy
from support.enrolling import enrol

DAY = 86_400_000


def signed(people, number="3fK9-first", **changes):
    """A grant of alice's, signed as her page does it."""

    async def sign(approvals):
        key = (await enrol(approvals, await approvals.ticket("alice", by="operator")))[1]
        now = approvals.now()
        plain = {
            "id": number,
            "person": "alice",
            "agent": GrantedAgent("api-key", "reports", "0123456789ab"),
            "server": "bank",
            "server_id": "urn:test:bank",
            "tool": "transfer",
            "tool_hash": "ab" * 32,
            "arguments": (GrantCondition("to", "equals", "DE\u202e1"), GrantCondition("amount", "anything")),
            "calls": 3,
            "begins": now,
            "ends": now + DAY,
            "sum_of": "amount",
            "sum_at_most": "100",
        }
        terms = GrantTerms(**(plain | changes))
        issued = await approvals.begin_grant(terms, ApprovalPolicy("platform"))
        response = key.get(dict(issued.result["requestOptions"], allowCredentials=[]))
        evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
        await approvals.finish_grant("alice", evidence, terms)

    people.asks(sign)


def test_grants_are_listed_shown_and_revoked(people):
    people("users", "add", "alice")
    assert "No grant can be used" in people("grants", "list").err
    signed(people)
    signed(people, "other-one", sum_of="", sum_at_most="", arguments=())
    rows = {row["id"]: row for row in people.json("grants", "list")}
    assert rows["3fK9-first"]["calls"] == "0 of 3"
    assert rows["3fK9-first"]["amount"] == "0 of 100"
    assert "0 of 100" in people("grants", "list", "--user", "alice").out
    shown = people("grants", "show", "3fK9").out
    assert 'Argument to: exactly "DE\\u202e1"' in shown
    assert "amount of all these calls together: at most 100" in shown
    assert people.json("grants", "show", "3fK9")["terms"]["calls"] == 3
    assert "Revoked: transfer on bank, signed by alice." in people("grants", "revoke", "3fK9").out
    assert "revoked before" in people("grants", "revoke", "3fK9", code=1).err
    assert [row["id"] for row in people.json("grants", "list")] == ["other-one"]
    assert "revoked" in people("grants", "list", "--all").out
    assert "no grant" in people("grants", "show", "nothing", code=1).err


def test_the_link_to_the_form(people):
    out = people("grants", "link", "--server", "bank", "--tool", "transfer", "--calls", "3").out
    assert "/grants/new?server=bank&name=transfer&calls=3" in out
