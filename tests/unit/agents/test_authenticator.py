"""The gate for callers: order, defaults, contradictions, and what goes on to the server."""

import hashlib
import json
import logging
import time

import pytest
from msgspec.structs import replace

from callgate.agents.apikeys import ApiKeys
from callgate.agents.authenticator import Authenticator, TestKey, VerifyOptions, by_environment, verified
from callgate.agents.directories import AgentIdentity, Sources
from callgate.agents.kya import Attested, KyaPay, KyaPolicy, KyaSettings
from callgate.agents.limits import MemoryLimiter, OverBudget
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.agents.tokens import Bearer, BearerSettings
from callgate.agents.tokens import Issuer as Trusted
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import ConfigError, Reason, Refused, StoreUnavailable
from callgate.store.memory import MemoryAgents
from support.callers import NOW, Agent, Clock, Gate, Issuer, call, request
from support.registry import requirement
from support.table import rows

ONLY_SEARCH = ToolPolicy(allow=("search",))


# ---- who ----


@requirement("WB-084")
async def test_a_script_without_a_signature_is_told_apart():
    gate = Gate()
    assert (await gate.decide(gate.alice.send(call("search")))).ok
    assert await gate.reason(request(call("search"))) == (401, "missing_signature_headers")
    assert await gate.reason(gate.stranger.send(call("search"))) == (401, "unknown_keyid")
    assert await gate.reason(gate.unlisted.send(call("search"))) == (403, "agent_not_in_directory")


@requirement("WB-077")
async def test_a_good_signature_of_nobody_listed():
    gate = Gate()
    decision = await gate.decide(gate.unlisted.send(call("search")))
    assert (decision.status, decision.reason) == (403, Reason.AGENT_NOT_IN_DIRECTORY)
    assert decision.info.keyid == gate.unlisted.keyid


@requirement("WB-035")
async def test_without_a_directory_the_key_is_the_name():
    gate = Gate(named=False)
    decision = await gate.decide(gate.unlisted.send(call("search")))
    assert decision.caller.id == gate.unlisted.keyid
    assert dict(decision.forward_headers())[b"callgate-agent"] == gate.unlisted.keyid.encode()


@requirement("WB-020")
async def test_a_directory_of_ones_own_decides_the_name():
    class Mine:
        async def agent(self, verified):
            return AgentIdentity(f"mine-{verified.label}")

    gate = Gate(directory=Mine())
    decision = await gate.decide(gate.alice.send(call("search"), label="abc"))
    assert dict(decision.forward_headers())[b"callgate-agent"] == b"mine-abc"


@requirement("WB-025")
async def test_the_bare_verifier_has_both_outcomes():
    gate = Gate()
    verifier = Verifier(VerifySettings(), gate.directories.key, gate.shelf, gate.clock)
    good = await verified(verifier, gate.alice.send(b"{}", label="abc"))
    assert (good.ok, good.raw_body, good.info.keyid, good.info.label) == (True, b"{}", gate.alice.keyid, "abc")
    bad = await verified(verifier, request(b"{}"))
    assert (bad.ok, bad.raw_body, bad.info) == (False, b"", None)
    response = bad.to_response()
    assert response.status == 401
    assert json.loads(response.body)["error"]["data"]["reason"] == "missing_signature_headers"


# ---- the order ----


@requirement("WB-026")
async def test_of_two_faults_the_earlier_layer_answers():
    issuer = Issuer()
    gate = Gate(
        issuer.clock,
        default_policy=ONLY_SEARCH,
        agents=[AgentPolicy("bob", ToolPolicy(allow=("search",), per_minute=1, burst=1))],
        rate_limiter=MemoryLimiter(clock=issuer.clock),
        kya=KyaPolicy("required", Stub()),
    )
    refusals = [
        await gate.reason(gate.stranger.send(call("checkout"))),
        await gate.reason(gate.unlisted.send(call("checkout"))),
        await gate.reason(gate.bob.send(call("checkout"))),
        # The first call of a tool that is allowed has no token either; the next is over the limit as well.
        await gate.reason(gate.bob.send(call("search"))),
        await gate.reason(gate.bob.send(call("search"))),
        await gate.reason(gate.bob.send(call("checkout"))),
    ]
    assert [reason for _, reason in refusals] == [
        "unknown_keyid",
        "agent_not_in_directory",
        "tool_denied",
        "kya_required",
        "rate_limited",
        "tool_denied",
    ]


class Stub:
    """A verifier of tokens that takes every token."""

    async def verify(self, token, caller):
        return Attested("carol")


# ---- the kill switch ----


@requirement("WB-037", "WB-076")
async def test_the_kill_switch_refuses_signed_and_unsigned_alike():
    gate = Gate()
    assert (await gate.decide(gate.alice.send(call("x")))).ok
    blocked = Gate(block_all=True)
    for sent in (blocked.alice.send(call("x")), request(call("x")), request(b"", method="GET"), request(b"\xff")):
        assert await blocked.reason(sent) == (403, "blocked_by_policy")


@requirement("WB-089")
async def test_a_flag_in_the_environment_is_looked_up_each_time():
    environ = {}
    gate = Gate(block_all=by_environment(environ=environ))
    assert (await gate.decide(gate.alice.send(call("x")))).ok
    for on in ("1", "true", "ON", "please"):
        environ["CALLGATE_BLOCK_ALL"] = on
        assert await gate.reason(gate.alice.send(call("x"))) == (403, "blocked_by_policy")
    environ["CALLGATE_BLOCK_ALL"] = "off"
    assert (await gate.decide(gate.alice.send(call("x")))).ok


async def test_a_switch_turned_while_a_request_is_looked_at():
    on = []

    class Slow:
        async def agent(self, verified):
            on.append(True)
            return AgentIdentity("alice")

    gate = Gate(directory=Slow(), block_all=lambda: bool(on))
    assert await gate.reason(gate.alice.send(call("x"))) == (403, "blocked_by_policy")


@rows("answer", [None, 0, "", "off"])
async def test_a_switch_that_does_not_say_no_is_on(answer):
    gate = Gate(block_all=lambda: answer)
    assert await gate.reason(gate.alice.send(call("x"))) == (403, "blocked_by_policy")


async def test_a_switch_that_breaks_lets_nothing_through():
    def broken():
        raise OSError

    gate = Gate(block_all=broken)
    assert await gate.reason(gate.alice.send(call("x"))) == (503, "check_failed")


# ---- the rules ----


@requirement("WB-021", "WB-022", "WB-038", "WB-040", "WB-079")
async def test_tools_by_agent_and_by_default():
    policies = [AgentPolicy("alice", ToolPolicy(allow=("*",), deny=("checkout",))), AgentPolicy("carol", ToolPolicy())]
    gate = Gate(default_policy=ONLY_SEARCH, agents=policies)
    assert (await gate.decide(gate.alice.send(call("anything")))).ok
    assert await gate.reason(gate.alice.send(call("checkout"))) == (403, "tool_denied")
    assert (await gate.decide(gate.bob.send(call("search")))).ok
    assert await gate.reason(gate.bob.send(call("anything"))) == (403, "tool_denied")


@requirement("WB-039")
async def test_without_a_policy_any_verified_agent_passes():
    gate = Gate()
    assert (await gate.decide(gate.bob.send(call("anything")))).ok
    assert (await gate.decide(gate.bob.send(b"not even JSON"))).ok


@requirement("WB-078")
async def test_an_agent_that_is_denied_as_a_whole():
    gate = Gate(agents=[AgentPolicy("bob", ToolPolicy(denied=True))])
    assert await gate.reason(gate.bob.send(b"")) == (403, "agent_denied")
    assert (await gate.decide(gate.alice.send(b""))).ok


@requirement("WB-041")
async def test_the_tool_is_that_of_a_tools_call():
    gate = Gate(default_policy=ONLY_SEARCH)
    decision = await gate.decide(gate.alice.send(call("search")))
    assert decision.tools == ("search",)
    other = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"checkout"}}'
    assert (await gate.decide(gate.alice.send(other))).tools == ()
    note = b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"checkout"}}'
    assert await gate.reason(gate.alice.send(note)) == (403, "tool_denied")


@requirement("WB-042")
async def test_another_extractor_decides_the_tool():
    gate = Gate(default_policy=ONLY_SEARCH, extract_tools=lambda body: body.decode().split(" ")[0])
    assert (await gate.decide(gate.alice.send(b"search for this"))).ok
    assert await gate.reason(gate.alice.send(b"checkout now")) == (403, "tool_denied")
    gate = Gate(default_policy=ONLY_SEARCH, extract_tools=lambda body: body.decode().split(" "))
    assert await gate.reason(gate.alice.send(b"search checkout")) == (403, "tool_denied")
    gate = Gate(default_policy=ONLY_SEARCH, extract_tools=lambda body: None)
    assert (await gate.decide(gate.alice.send(b"checkout"))).ok


@rows("found", [[1], [None], ["search"] * 101, 7])
async def test_an_extractor_that_answers_nonsense_lets_nothing_through(found):
    gate = Gate(default_policy=ONLY_SEARCH, extract_tools=lambda body: found)
    assert not (await gate.decide(gate.alice.send(b"x"))).ok


@rows(
    "body",
    [
        b"not JSON",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","name":"checkout"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"checkout","name":"search"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"checkout"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["checkout"]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b"[]",
    ],
)
async def test_a_body_that_two_readers_could_read_differently_proves_nothing(body):
    gate = Gate(default_policy=ToolPolicy(allow=("*",)))
    decision = await gate.decide(gate.alice.send(body))
    assert (decision.ok, decision.status) == (False, 400)


# ---- the body ----


@requirement("WB-019", "WB-052")
async def test_rules_for_tools_need_the_body_bound():
    plain, ruled = Gate(), Gate(default_policy=ONLY_SEARCH)
    decision = await plain.decide(plain.alice.send(call("x"), digest=False))
    assert (decision.ok, decision.info.digest_verified, decision.caller.digest_verified) == (True, False, False)
    assert await ruled.reason(ruled.alice.send(call("search"), digest=False)) == (400, "content_digest_required")
    assert await ruled.reason(uncovered(ruled.alice, call("search"))) == (401, "content_digest_required")
    decision = await ruled.decide(ruled.alice.send(call("search")))
    assert (decision.ok, decision.info.digest_verified) == (True, True)


def uncovered(agent, body):
    """A request with a digest that is right, and that nobody signed."""
    (digest,) = [one for one in agent.send(body).headers if one[0] == b"content-digest"]
    sent = agent.send(body, digest=False)
    return replace(sent, headers=(*sent.headers, digest))


@requirement("WB-053")
async def test_a_digest_can_be_required_without_rules():
    gate = Gate(verify={"content_digest": "required"})
    assert await gate.reason(gate.alice.send(call("x"), digest=False)) == (400, "content_digest_required")
    assert await gate.reason(uncovered(gate.alice, call("x"))) == (401, "content_digest_required")


@requirement("WB-028")
async def test_what_goes_on_is_what_was_verified():
    gate, body = (
        Gate(default_policy=ONLY_SEARCH),
        b' {"jsonrpc":"2.0", "id":1,"method":"tools/call","params":{"name":"search"}} ',
    )
    decision = await gate.decide(gate.alice.send(body))
    assert hashlib.sha256(decision.raw_body).digest() == hashlib.sha256(body).digest()
    assert (await gate.decide(gate.alice.send(call("checkout")))).raw_body == b""


# ---- limits ----


@requirement("WB-023", "WB-044", "WB-080")
async def test_each_agent_has_a_budget_of_its_own():
    clock = Clock()
    gate = Gate(clock, default_policy=ToolPolicy(per_minute=60, burst=2), rate_limiter=MemoryLimiter(clock=clock))
    for _ in range(2):
        assert (await gate.decide(gate.alice.send(b""))).ok
    decision = await gate.decide(gate.alice.send(b""))
    assert (decision.status, decision.reason) == (429, Reason.RATE_LIMITED)
    headers = dict(decision.to_response().headers)
    assert headers[b"retry-after"] == b"1"
    assert headers[b"ratelimit"].startswith(b'"agent";r=0')
    assert (await gate.decide(gate.bob.send(b""))).ok
    clock.now += 1
    decision = await gate.decide(gate.alice.send(b""))
    assert decision.ok
    assert b"ratelimit" in dict(decision.headers)


@requirement("WB-044")
async def test_without_a_limiter_nobody_is_limited():
    gate = Gate()
    for _ in range(50):
        assert (await gate.decide(gate.alice.send(b""))).ok
    with pytest.raises(ConfigError, match="nothing that counts"):
        Gate(default_policy=ToolPolicy(per_minute=1))


# ---- KYA ----


@requirement("WB-045", "WB-081", "WB-082", "WB-083")
async def test_tokens_off_optional_and_required():
    issuer = Issuer()
    gate = Gate(issuer.clock)
    assert (await gate.decide(gate.alice.send(b""))).ok

    def verifier():
        return KyaPay(KyaSettings({issuer.url: ""}, "seller-1"), issuer.fetch, MemoryAgents(), issuer.clock)

    gate = Gate(issuer.clock, kya=KyaPolicy("required", verifier()))
    token = issuer.kya(gate.alice)
    assert await gate.reason(gate.alice.send(b"")) == (401, "kya_required")
    assert await gate.reason(gate.alice.send(b"", {"kyapay-token": "x.y.z"})) == (401, "kya_invalid")
    decision = await gate.decide(gate.alice.send(b"", {"kyapay-token": token}))
    assert decision.caller.principal == "https://issuer.example#buyer-7"
    assert b"kyapay-token" not in dict(decision.forward_headers())
    gate = Gate(issuer.clock, kya=KyaPolicy("optional", verifier()))
    assert (await gate.decide(gate.alice.send(b""))).ok
    gate = Gate(issuer.clock, kya=KyaPolicy("required"))
    assert await gate.reason(gate.alice.send(b"")) == (500, "kya_invalid")


# ---- other callers ----


@pytest.fixture
def others():
    issuer = Issuer()
    shelf = MemoryAgents()
    trusted = Trusted(issuer.url, f"{issuer.url}/jwks")
    bearer = Bearer(BearerSettings("https://gate.example/mcp", (trusted,)), issuer.fetch, issuer.clock)
    return issuer, ApiKeys(shelf, issuer.clock.ms), bearer


async def test_keys_and_tokens_beside_signatures(others):
    issuer, keys, bearer = others
    gate = Gate(issuer.clock, api_keys=keys, bearer=bearer, agents=[AgentPolicy("robot", ONLY_SEARCH)])
    made = await keys.create("robot")
    decision = await gate.decide(request(call("search"), {"authorization": f"Bearer {made.text}"}))
    assert (decision.caller.id, decision.caller.source) == ("robot", "api-key")
    assert b"authorization" not in dict(decision.forward_headers())
    sent = request(call("checkout"), {"authorization": f"bearer  {made.text}"})
    assert await gate.reason(sent) == (403, "tool_denied")
    decision = await gate.decide(request(call("search"), {"authorization": f"Bearer {issuer.access()}"}))
    assert (decision.caller.id, decision.caller.source) == ("https://issuer.example#carol", "oauth")
    assert (await gate.decide(gate.alice.send(call("search")))).caller.source == "web-bot-auth"


async def test_without_any_credential_the_answer_says_how(others):
    issuer, keys, bearer = others
    gate = Gate(issuer.clock, api_keys=keys, bearer=bearer)
    decision = await gate.decide(request(call("search")))
    assert (decision.status, decision.reason) == (401, Reason.CREDENTIALS_REQUIRED)
    told = [value for name, value in decision.to_response().headers if name == b"www-authenticate"]
    assert told[0].startswith(b"Bearer resource_metadata=")
    assert told[1:] == [b'Signature realm="callgate"']
    accepted = dict(decision.to_response().headers)[b"accept-signature"]
    assert accepted.endswith(b';created;expires;tag="web-bot-auth"')
    for bad in ("Bearer", "Basic YTpi", "Bearer ", ""):
        assert (await gate.reason(request(b"", {"authorization": bad})))[1] == "credentials_required"
    for bad in ("Bearer cgk_x", f"Bearer {'x' * 20_000}", "Bearer a.b.c", "Bearer cgk_" + "0" * 12 + "_" + "A" * 43):
        decision = await gate.decide(request(b"", {"authorization": bad}))
        assert (decision.status, decision.reason) == (401, Reason.CREDENTIALS_INVALID)
        headers = decision.to_response().headers
        assert any(b"invalid_token" in value for name, value in headers if name == b"www-authenticate")


async def test_a_bad_signature_is_not_made_good_by_a_key(others):
    issuer, keys, bearer = others
    gate = Gate(issuer.clock, api_keys=keys, bearer=bearer)
    made = await keys.create("robot")
    authorization = {"authorization": f"Bearer {made.text}"}
    assert await gate.reason(gate.stranger.send(b"", authorization)) == (401, "unknown_keyid")
    only = request(b"", {**authorization, "signature": "sig1=:AAAA:"})
    assert await gate.reason(only) == (401, "missing_signature_headers")
    once = request(b"", authorization)
    twice = replace(once, headers=(*once.headers, once.headers[-1]))
    assert await gate.reason(twice) == (401, "credentials_invalid")


async def test_a_key_beside_a_signature_goes_no_further(others):
    issuer, keys, _ = others
    made = await keys.create("robot")
    authorization = {"authorization": f"Bearer {made.text}"}
    gate = Gate(issuer.clock, api_keys=keys)
    decision = await gate.decide(gate.alice.send(b"", authorization))
    assert decision.caller.id == "alice"
    assert b"authorization" not in dict(decision.forward_headers())
    # Where we take none, it is for the server.
    gate = Gate(issuer.clock)
    decision = await gate.decide(gate.alice.send(b"", authorization))
    assert b"authorization" in dict(decision.forward_headers())


async def test_in_two_steps_for_a_gateway_that_reads_the_calls_itself():
    clock = Clock()
    gate = Gate(
        clock, default_policy=ToolPolicy(deny=("rm",), per_minute=1, burst=2), rate_limiter=MemoryLimiter(clock=clock)
    )
    known = await gate.auth.identify(gate.alice.send(b"whatever it is"))
    assert (known.ok, known.caller.id, known.tools) == (True, "alice", ())
    headers = dict(await gate.auth.permit(known.caller, ["look"]))
    assert headers[b"ratelimit"].startswith(b'"agent";r=1')
    with pytest.raises(Refused) as refused:
        await gate.auth.permit(known.caller, ["look", "rm"])
    assert refused.value.reason is Reason.TOOL_DENIED
    await gate.auth.permit(known.caller, ["look"])
    with pytest.raises(OverBudget) as limited:
        await gate.auth.permit(known.caller, ["look"])
    assert limited.value.status == 429
    assert b"retry-after" in dict(limited.value.headers)
    assert await gate.auth.attested(gate.alice.send(b""), known.caller) == known.caller
    assert (await gate.auth.identify(request(b""))).reason is Reason.MISSING_SIGNATURE_HEADERS


async def test_only_keys(others):
    issuer, keys, _ = others
    auth = Authenticator(signatures=False, api_keys=keys, agents=[AgentPolicy("robot", ONLY_SEARCH)])
    made = await keys.create("robot")
    assert (await auth.authorize(request(call("search"), {"authorization": f"Bearer {made.text}"}))).ok
    token = {"authorization": f"Bearer {issuer.access()}"}
    assert (await auth.authorize(request(b"", token))).reason is Reason.CREDENTIALS_INVALID
    agent = Agent(issuer.clock)
    assert (await auth.authorize(agent.send(b""))).reason is Reason.CREDENTIALS_REQUIRED


# ---- configuration ----


@requirement("WB-027")
def test_rules_for_tools_and_an_optional_digest_contradict_each_other():
    with pytest.raises(ConfigError, match="content_digest"):
        Gate(default_policy=ONLY_SEARCH, verify={"content_digest": "optional"})
    Gate(verify={"content_digest": "optional"})


@requirement("WB-036")
def test_rules_for_agents_need_a_directory():
    with pytest.raises(ConfigError, match="directory"):
        Gate(named=False, agents=[AgentPolicy("alice")])
    Gate(named=False, agents=[])


@requirement("WB-050")
def test_no_place_for_nonces_warns_and_is_refused_in_production(caplog):
    with caplog.at_level(logging.WARNING):
        Gate(verify={"nonces": None})
    assert "nonces" in caplog.text
    with pytest.raises(ConfigError, match="nonces"):
        Gate(verify={"nonces": None}, production=True)
    with pytest.raises(ConfigError, match="nonces"):
        Gate(verify={"nonces": None, "nonce": "required"})
    Gate(production=True)


@requirement("WB-055")
async def test_a_test_key_is_for_development_only():
    clock, agent = Clock(), Agent(Clock())
    assert VerifyOptions().test_public_key is None
    key = TestKey("dev", agent.jwk["x"])
    gate = Gate(clock, named=False, verify={"test_public_key": key})
    decision = await gate.decide(agent.send(b""))
    assert (decision.ok, decision.caller.directory) == (True, "test")
    assert await Gate(clock, named=False).reason(agent.send(b"")) == (401, "unknown_keyid")
    with pytest.raises(ConfigError, match="production"):
        Gate(verify={"test_public_key": key}, production=True)
    with pytest.raises(ConfigError, match="test_public_key"):
        Gate(verify={"test_public_key": TestKey("dev", "AAAA")})


def test_somebody_has_to_be_let_in():
    with pytest.raises(ConfigError):
        Authenticator(signatures=False)


@requirement("WB-034", "WB-051")
async def test_what_is_set_for_the_verifier_takes_effect():
    options = VerifyOptions()
    assert (options.max_window_seconds, options.content_digest, options.nonces) == (480, None, None)
    gate, wide = Gate(), Gate(verify={"max_window_seconds": 600})
    assert (await gate.decide(gate.alice.send(b"", expires_in=480))).ok
    assert await gate.reason(gate.alice.send(b"", expires_in=481)) == (401, "window_too_large")
    assert (await wide.decide(wide.alice.send(b"", expires_in=481))).ok


@requirement("WB-054")
async def test_the_clock_is_the_systems_or_the_one_that_is_given():
    assert VerifyOptions().now is time.time
    gate = Gate()
    sent = [gate.alice.send(b"") for _ in range(3)]
    assert (await gate.decide(sent[0])).ok
    gate.clock.now = NOW + 61
    assert await gate.reason(sent[1]) == (401, "signature_expired")
    gate.clock.now = NOW - 60
    assert await gate.reason(sent[2]) == (401, "created_in_future")


@requirement("WB-034")
async def test_an_authenticator_without_any_option_follows_nobody_it_cannot_reach():
    assert VerifyOptions().sources == Sources()
    auth = Authenticator(verify=VerifyOptions(nonces=MemoryAgents(), sources=Sources(discovery="ignore")))
    agent = Agent(Clock(time.time()))
    assert (await auth.authorize(agent.send(b""))).reason is Reason.UNKNOWN_KEYID
    await auth.close()


# ---- answers ----


@requirement("WB-056")
async def test_every_refusal_has_one_reason_in_the_value_and_in_the_answer():
    gate = Gate(default_policy=ONLY_SEARCH, agents=[AgentPolicy("bob", ToolPolicy(denied=True))])
    for sent in (
        request(b""),
        gate.stranger.send(b""),
        gate.unlisted.send(b""),
        gate.bob.send(b""),
        gate.alice.send(call("x")),
        gate.alice.send(b"x"),
    ):
        decision = await gate.decide(sent)
        response = decision.to_response()
        body = json.loads(response.body)
        assert body["error"]["data"]["reason"] == decision.reason.value
        assert body["error"]["data"]["advice"]
        assert body["error"]["message"] == decision.detail
        assert (response.status, decision.reason) == (decision.status, Reason(decision.reason.value))
        assert dict(response.headers)[b"content-type"] == b"application/json"
        with pytest.raises(ValueError, match="nobody"):
            decision.forward_headers()


async def test_a_request_that_goes_on_is_not_answered():
    gate = Gate()
    decision = await gate.decide(gate.alice.send(b""))
    with pytest.raises(ValueError, match="let through"):
        decision.to_response()


@rows("error", [StoreUnavailable("down"), ValueError("x"), RecursionError()])
async def test_a_part_that_breaks_refuses(error):
    class Broken:
        async def agent(self, verified):
            raise error

    gate = Gate(directory=Broken())
    expected = "store_unavailable" if isinstance(error, StoreUnavailable) else "check_failed"
    assert await gate.reason(gate.alice.send(b"")) == (503, expected)


async def test_a_directory_that_answers_with_an_empty_name_knows_nobody():
    class Empty:
        async def agent(self, verified):
            return AgentIdentity("")

    gate = Gate(directory=Empty())
    assert await gate.reason(gate.alice.send(b"")) == (403, "agent_not_in_directory")


async def test_a_decision_shows_no_secrets(others):
    issuer, keys, _ = others
    gate = Gate(issuer.clock, api_keys=keys)
    made = await keys.create("robot")
    decision = await gate.decide(request(b"", {"authorization": f"Bearer {made.text}"}))
    assert decision.ok
    assert made.text not in repr(decision)


async def test_two_copies_of_one_request():
    gate = Gate()
    sent = gate.alice.send(call("x"))
    reasons = [await gate.reason(sent) for _ in range(3)]
    assert reasons == [(200, ""), (401, "nonce_replay"), (401, "nonce_replay")]
