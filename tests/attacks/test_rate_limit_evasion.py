"""The attacker wants more than its budget: other labels, other spellings, other headers, batches, many keys at once."""

import asyncio

from msgspec.structs import replace

from callgate.agents.limits import MemoryLimiter, StoreLimiter, ToolLimit
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.store.memory import MemoryAgents
from support.callers import Agent, Clock, Gate, call
from support.registry import requirement
from support.table import rows

BUDGET = 5


def gate_of(*, burst=BUDGET, store=False, **options):
    clock = Clock()
    limiter = StoreLimiter(MemoryAgents(), clock=clock) if store else MemoryLimiter(clock=clock)
    policy = options.pop("default_policy", ToolPolicy(per_minute=1, burst=burst))
    return Gate(clock, default_policy=policy, rate_limiter=limiter, **options)


async def passed(gate, requests):
    decisions = [await gate.decide(one) for one in requests]
    assert {one.reason for one in decisions if not one.ok} <= {"rate_limited"}
    return sum(one.ok for one in decisions)


@requirement("WB-023")
@rows("store", [False, True])
async def test_a_new_label_for_every_request(store):
    gate = gate_of(store=store)
    assert await passed(gate, [gate.alice.send(b"", label=f"sig{at}") for at in range(20)]) == BUDGET
    assert await passed(gate, [gate.bob.send(b"", label="sig1")]) == 1


async def test_several_labels_in_one_request_are_one_caller():
    gate = gate_of()

    def doubled(first, second):
        once = first.send(b"", label="a")
        added = second.signer("b").sign(once)
        names = {name.lower().encode() for name in added}
        kept = [one for one in once.headers if one[0] not in names]
        return replace(
            once, headers=(*kept, *((name.lower().encode(), value.encode()) for name, value in added.items()))
        )

    assert await passed(gate, [doubled(gate.alice, gate.alice) for _ in range(20)]) == BUDGET
    # With a key of another agent beside it the first label that holds counts: no third budget comes of it.
    assert await passed(gate, [doubled(gate.alice, gate.bob) for _ in range(20)]) == 0


@requirement("WB-023")
async def test_other_addresses_names_and_headers():
    gate = gate_of()
    tricks = [
        {"x-forwarded-for": f"198.51.100.{at}", "forwarded": f"for=198.51.100.{at}", "user-agent": f"agent-{at}"}
        for at in range(10)
    ]
    tricks += [{"callgate-agent": f"somebody-{at}", "callgate-agent-key": f"{at}"} for at in range(10)]
    assert await passed(gate, [gate.alice.send(b"", headers) for headers in tricks]) == BUDGET


async def test_many_calls_in_one_request():
    gate = gate_of()
    assert await passed(gate, [gate.alice.send(call(*["search"] * (BUDGET + 1)))]) == 0
    gate = gate_of()
    assert await passed(gate, [gate.alice.send(call("a", "b")) for _ in range(10)]) == BUDGET // 2


async def test_a_body_that_cannot_be_counted():
    gate = gate_of()
    body = b'[{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a"}}]'
    assert (await gate.decide(gate.alice.send(body))).reason == "duplicate_key"


async def test_all_at_once():
    gate = gate_of(store=True)
    sent = [gate.alice.send(b"", label=f"sig{at}") for at in range(50)]
    decisions = await asyncio.gather(*(gate.decide(one) for one in sent))
    assert sum(one.ok for one in decisions) == BUDGET


async def test_several_keys_of_one_agent_share_its_budget():
    keys = [Agent(Clock()) for _ in range(4)]
    gate = gate_of(also={"carol": keys}, agents=[AgentPolicy("carol", ToolPolicy(per_minute=1, burst=BUDGET))])
    assert await passed(gate, [keys[at % 4].send(b"") for at in range(20)]) == BUDGET


@rows("spelling", ["Pay_now", "PAY_NOW", "pay_now\u200b", "pay_later", " pay_now"])
async def test_a_tools_budget_by_another_spelling(spelling):
    gate = gate_of(default_policy=ToolPolicy(), tool_limits=[ToolLimit("pay_*", 1, BUDGET)])
    sent = [gate.alice.send(call(("pay_now", spelling)[at % 2])) for at in range(20)]
    assert await passed(gate, sent) == BUDGET
    assert await passed(gate, [gate.alice.send(call("look")) for _ in range(20)]) == 20


async def test_a_tools_budget_by_other_servers():
    gate = gate_of()
    sent = [(gate.alice.send(call("a")), f"server-{at}") for at in range(20)]
    decisions = [await gate.decide(one, server) for one, server in sent]
    assert sum(one.ok for one in decisions) == BUDGET


async def test_refused_requests_cost_nobody_else_anything():
    gate = gate_of()
    forged = [replace(gate.alice.send(b""), path="/other") for _ in range(50)]
    for one in forged:
        assert (await gate.decide(one)).reason == "signature_invalid"
    assert await passed(gate, [gate.alice.send(b"") for _ in range(20)]) == BUDGET
