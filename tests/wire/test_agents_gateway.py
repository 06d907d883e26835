"""Who calls, on the wire: signed requests through a real gateway, what its server gets of them, and who is turned away."""

import hashlib
import json
from base64 import b64encode
from types import SimpleNamespace

import pytest

from support.agents_gate import INSIDE, PLAIN, call, known, reason, signer, site, web
from support.raw import ask
from support.records import calls_of
from support.registry import requirement

IDENTITY = (
    "callgate-agent",
    "callgate-agent-key",
    "callgate-agent-directory",
    "callgate-agent-source",
    "callgate-body-verified",
)


def get(running, path):
    return ask(f"{running.gateway.address}{path}", None, {}, "GET")


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """A gateway with rules for some agents, and others for everybody else."""
    agents = {name: signer() for name in ("free", "new", "picky", "barred", "shut", "split", "plain", "slow", "tooled")}
    rules = {
        "free": {"allow_tools": ["*"]},
        "new": {"allow_tools": ["*"]},
        "picky": {"allow_tools": ["search", "get_*"]},
        "barred": {"deny_tools": ["checkout"]},
        "shut": {"denied": True},
        "split": {"allow_tools": ["*"], "servers": {"two": {"allow_tools": ["search"]}}},
        "slow": {"allow_tools": ["*"], "per_minute": 2, "burst": 2},
        "tooled": {"allow_tools": ["*"], "per_tool": {"send_*": 1}},
    }
    section = {
        "mode": "required",
        "known": {name: known(by, **rules[name]) for name, by in agents.items() if name in rules},
        "default": {"allow_tools": ["search"]},
        "servers": {"two": {"deny_tools": ["drop_*"]}},
        "strangers": "admit",
        "signatures": {"discovery": "trust", "allow_addresses": INSIDE},
    }
    directory = tmp_path_factory.mktemp("ruled")
    with web(directory) as pages:
        agents["plain"] = signer(pages.url)
        pages.publish(agents["plain"])
        with site(directory, pages.env, agents=section) as running:
            yield SimpleNamespace(site=running, send=running.send, got=running.got, **agents)


@requirement("WB-001")
def test_a_signed_call_goes_through_and_one_changed_byte_does_not(ruled):
    before = len(ruled.got())
    assert reason(ruled.send(ruled.free, call("search", q="tea"))) == (200, "")
    assert len(ruled.got()) == before + 1
    headers = ruled.site.signed(ruled.free, call("search"))
    spoilt = headers["Signature-Input"].replace('alg="ed25519"', 'alg="ed25519";x=1')
    assert reason(ruled.send(None, call("search"), headers=headers | {"Signature-Input": spoilt})) == (
        401,
        "signature_invalid",
    )
    assert len(ruled.got()) == before + 1


@requirement("WB-057", "WB-084")
def test_who_signs_nothing_or_with_a_key_that_nobody_knows_is_refused(ruled):
    before = len(ruled.got())
    assert reason(ruled.send(None, call("search"))) == (401, "missing_signature_headers")
    assert reason(ruled.send(None, method="GET", body=None)) == (401, "missing_signature_headers")
    assert reason(ruled.send(None, method="DELETE", body=None)) == (401, "missing_signature_headers")
    only = ruled.site.signed(ruled.free)
    del only["Signature"]
    assert reason(ruled.send(None, headers=only)) == (401, "missing_signature_headers")
    assert reason(ruled.send(signer(), call("search"))) == (401, "unknown_keyid")
    assert len(ruled.got()) == before


def test_streams_and_ends_of_sessions_are_verified_too(ruled):
    before = len(ruled.got())
    assert ruled.send(ruled.free, None, method="DELETE").status == 200
    assert ruled.got()[-1].line.startswith(b"DELETE")
    assert reason(ruled.send(signer(), None, method="GET")) == (401, "unknown_keyid")
    assert len(ruled.got()) == before + 1


@requirement("WB-021", "WB-079")
def test_an_agent_calls_the_tools_that_it_is_allowed(ruled):
    assert reason(ruled.send(ruled.picky, call("search"))) == (200, "")
    assert reason(ruled.send(ruled.picky, call("get_product"))) == (200, "")
    before = len(ruled.got())
    assert reason(ruled.send(ruled.picky, call("checkout"))) == (403, "tool_denied")
    assert len(ruled.got()) == before
    assert reason(ruled.send(ruled.free, call("checkout"))) == (200, "")


@requirement("WB-022")
def test_an_agent_calls_all_but_the_tools_that_are_denied(ruled):
    assert reason(ruled.send(ruled.barred, call("checkout"))) == (403, "tool_denied")
    assert reason(ruled.send(ruled.barred, call("anything"))) == (200, "")


@requirement("WB-041")
def test_what_is_no_call_is_not_asked_for_a_tool(ruled):
    assert reason(ruled.send(ruled.picky, b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')) == (200, "")


@requirement("WB-038", "WB-040")
def test_agents_without_rules_of_their_own_have_the_default_ones(ruled):
    assert reason(ruled.send(ruled.plain, call("search"))) == (200, "")
    assert reason(ruled.send(ruled.plain, call("get_product"))) == (403, "tool_denied")
    assert reason(ruled.send(ruled.barred, call("get_product"))) == (200, "")


def test_rules_differ_by_server(ruled):
    assert reason(ruled.send(ruled.split, call("checkout"))) == (200, "")
    assert reason(ruled.send(ruled.split, call("checkout"), server="two")) == (403, "tool_denied")
    assert reason(ruled.send(ruled.split, call("search"), server="two")) == (200, "")
    assert reason(ruled.send(ruled.free, call("drop_all"))) == (200, "")
    assert reason(ruled.send(ruled.free, call("drop_all"), server="two")) == (403, "tool_denied")


@requirement("WB-078")
def test_an_agent_that_is_denied_may_nothing(ruled):
    assert reason(ruled.send(ruled.shut, call("search"))) == (403, "agent_denied")
    assert reason(ruled.send(ruled.shut, PLAIN)) == (403, "agent_denied")


@requirement("WB-043")
def test_one_forbidden_tool_in_a_batch_stops_all_of_it(ruled):
    before = len(ruled.got())
    reply = ruled.send(ruled.picky, call("search", "checkout"))
    assert reply.status == 403
    told = {one["id"]: one["error"]["data"]["reason"] for one in json.loads(reply.body)}
    assert told == {1: "batch_refused", 2: "tool_denied"}
    assert len(ruled.got()) == before
    assert ruled.send(ruled.picky, call("search", "get_a")).status == 200


@requirement("WB-019", "WB-053")
def test_rules_for_tools_demand_the_digest_of_the_body(ruled):
    assert reason(ruled.send(ruled.free, call("search"), digest=False)) == (400, "content_digest_required")
    body = call("search")
    digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
    uncovered = {"Content-Digest": digest}
    assert reason(ruled.send(ruled.free, body, headers=uncovered, digest=False)) == (401, "content_digest_required")
    assert ruled.send(ruled.free, None, method="DELETE", digest=False).status == 200


@requirement("WB-088")
def test_a_signed_request_with_another_body_is_refused(ruled):
    before = len(ruled.got())
    headers = ruled.site.signed(ruled.free, call("search"))
    assert reason(ruled.send(None, call("checkout"), headers=headers)) == (401, "content_digest_mismatch")
    assert len(ruled.got()) == before


@requirement("WB-028")
def test_the_server_gets_the_very_bytes_that_were_verified(ruled):
    body = '{ "id" : 3,"jsonrpc":"2.0", "method":"tools/call",\n "params":{"name":"search","arguments":{"q":"é"}} }'
    # Who has read nothing yet has no labels to be told of.
    assert reason(ruled.send(ruled.new, body.encode())) == (200, "")
    assert ruled.got()[-1].body == body.encode()


@requirement("WB-029", "WB-094")
def test_the_server_is_told_who_called_by_the_gateway_only(ruled):
    spoofed = dict.fromkeys(IDENTITY, "mallory") | {"Callgate_Agent": "mallory", "callgate-agent-principal": "mallory"}
    assert reason(ruled.send(ruled.free, call("search"), headers=spoofed)) == (200, "")
    got = ruled.got()[-1]
    assert b"mallory" not in repr(got.headers).encode()
    assert got.header("callgate-agent") == [b"free"]
    assert got.header("callgate-agent-key") == [ruled.free.keyid.encode()]
    assert got.header("callgate-agent-source") == [b"web-bot-auth"]
    assert got.header("callgate-body-verified") == [b"true"]
    assert got.header("signature") == got.header("signature-input") == []


@requirement("WB-023", "WB-044", "WB-080")
def test_calls_are_counted_for_an_agent_wherever_it_calls_from(ruled):
    first = ruled.send(ruled.slow, call("search"), peer="127.0.0.2")
    assert first.status == 200
    assert first.header("RateLimit-Policy") == '"agent";q=2;w=60'
    assert ruled.send(ruled.slow, call("search"), peer="127.0.0.3").status == 200
    third = ruled.send(ruled.slow, call("search"), peer="127.0.0.4")
    assert reason(third) == (429, "rate_limited")
    assert 1 <= int(third.header("Retry-After") or "") <= 30
    assert (third.header("RateLimit") or "").startswith('"agent";r=0;t=')
    # Another agent at the same address has a budget of its own, and so has everything that is no call.
    assert ruled.send(ruled.free, call("search"), peer="127.0.0.4").status == 200
    assert ruled.send(ruled.slow, PLAIN, peer="127.0.0.4").status == 200
    assert ruled.send(ruled.free, call("search")).header("RateLimit") is None


def test_single_tools_are_counted_by_themselves_however_they_are_spelt(ruled):
    assert ruled.send(ruled.tooled, call("send_mail")).status == 200
    assert reason(ruled.send(ruled.tooled, call("send_mail"))) == (429, "rate_limited")
    assert reason(ruled.send(ruled.tooled, call("Send_Mail"))) == (429, "rate_limited")
    assert ruled.send(ruled.tooled, call("send_fax")).status == 200
    assert ruled.send(ruled.tooled, call("search")).status == 200


def test_a_batch_is_counted_call_by_call_or_not_at_all(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by, per_minute=3, burst=3)}}
    with site(tmp_path, agents=section) as running:
        assert running.send(by, call("a", "b")).status == 200
        reply = running.send(by, call("a", "b"))
        assert reply.status == 429
        assert running.send(by, call("a")).status == 200
        assert running.send(by, call("a")).status == 429


@requirement("WB-026")
def test_of_two_faults_the_earlier_layer_answers(ruled):
    # signature before rules, rules before the rate limit
    assert reason(ruled.send(signer(), call("checkout"))) == (401, "unknown_keyid")
    headers = ruled.site.signed(ruled.shut, call("search"))
    assert reason(ruled.send(None, call("checkout"), headers=headers)) == (401, "content_digest_mismatch")
    for _ in range(3):
        ruled.send(ruled.slow, call("search"))
    assert reason(ruled.send(ruled.slow, call("search"))) == (429, "rate_limited")
    assert reason(ruled.send(ruled.slow, call("drop_all"), server="two")) == (403, "tool_denied")


def test_the_record_says_who_called(ruled):
    ruled.send(ruled.barred, call("get_product", mark="on-record"))
    ruled.send(ruled.barred, call("checkout", mark="on-record"))
    found = [one["decision"] for one in calls_of(ruled.site.gateway) if "on-record" in json.dumps(one)]
    assert [one.get("reason") for one in found] == [None, "tool_denied"]
    for one in found:
        assert one["caller"]["agent"] == "barred"
        assert one["caller"]["proved by"] == "web-bot-auth"
        assert one["caller"]["key"] == ruled.barred.keyid
        assert one["caller"]["body signed"] == "yes"


def test_metrics_count_proofs_and_refusals(ruled):
    ruled.send(ruled.free)
    ruled.send(None)
    text = get(ruled.site, "/metrics").body.decode()
    assert 'callgate_agent_requests_total{source="web-bot-auth"}' in text
    assert 'callgate_agent_refusals_total{reason="missing_signature_headers"}' in text
    assert ruled.free.keyid not in text


# ---- without rules ----


@requirement("WB-039", "WB-045", "WB-094")
def test_without_any_rule_every_verified_agent_passes_and_an_unsigned_body_is_told(tmp_path):
    with web(tmp_path) as pages:
        by = signer(pages.url)
        pages.publish(by)
        section = {"mode": "required", "signatures": {"enabled": True, "allow_addresses": INSIDE}}
        with site(tmp_path, pages.env, agents=section) as running:
            assert reason(running.send(by, call("anything"), digest=False)) == (200, "")
            got = running.got()[-1]
            assert got.header("callgate-agent") == [by.keyid.encode()]
            assert got.header("callgate-body-verified") == [b"false"]
            assert pages.url.encode() in got.header("callgate-agent-directory")[0]
            (said,) = running.gateway.events("body not bound to its signature")
            assert said["contentDigestVerified"] is False
            assert all(running.send(by, call("anything")).status == 200 for _ in range(10))
            assert reason(running.send(None, call("anything"))) == (401, "missing_signature_headers")


@requirement("WB-077")
def test_a_good_signature_of_somebody_who_is_not_listed_is_refused(tmp_path):
    with web(tmp_path) as pages:
        by, other = signer(pages.url), signer()
        pages.publish(by)
        section = {
            "mode": "required",
            "known": {"other": known(other)},
            "signatures": {"allow_addresses": INSIDE},
        }
        with site(tmp_path, pages.env, agents=section) as running:
            assert reason(running.send(by)) == (403, "agent_not_in_directory")
            assert reason(running.send(other)) == (200, "")


def test_content_digest_can_be_required_without_rules(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by)}, "signatures": {"content_digest": "required"}}
    with site(tmp_path, agents=section) as running:
        assert reason(running.send(by, digest=False)) == (400, "content_digest_required")
        assert reason(running.send(by)) == (200, "")


def test_behind_a_proxy_signatures_are_for_the_name_that_agents_know(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by)}, "external_url": "https://gate.example"}
    with site(tmp_path, agents=section) as running:
        assert reason(running.send(by)) == (401, "signature_invalid")
        assert reason(running.send(by, base="https://gate.example")) == (200, "")
        assert reason(running.send(by, base="https://other.example")) == (401, "signature_invalid")
        # What the proxy calls the gateway makes no difference, as long as it is one of its names.
        named = {"Host": "gate.example"}
        assert reason(running.send(by, base="https://gate.example", headers=named)) == (200, "")
        other = {"Host": "other.example"}
        assert reason(running.send(by, base="https://other.example", headers=other)) == (403, "host_not_allowed")


def test_on_loopback_nobody_has_to_say_who_they_are_but_nobody_may_lie(tmp_path):
    by = signer()
    with site(tmp_path, agents={"known": {"by": known(by)}}) as running:
        assert reason(running.send(None, call("anything"))) == (200, "")
        assert running.got()[-1].header("callgate-agent") == []
        assert reason(running.send(None, call("x"), headers={"callgate-agent": "by"})) == (200, "")
        assert running.got()[-1].header("callgate-agent") == []
        assert reason(running.send(by, call("anything"))) == (200, "")
        assert running.got()[-1].header("callgate-agent") == [b"by"]
        assert reason(running.send(signer(), call("anything"))) == (401, "unknown_keyid")


def test_who_passes_unnamed_has_the_default_rules(tmp_path):
    section = {"default": {"deny_tools": ["checkout"], "per_minute": 2, "burst": 2}}
    with site(tmp_path, agents=section) as running:
        assert reason(running.send(None, call("checkout"))) == (403, "tool_denied")
        assert [running.send(None, call("search")).status for _ in range(3)] == [200, 200, 429]


def test_switched_off_nobody_is_asked_and_nobody_is_believed(tmp_path):
    with site(tmp_path, agents={"mode": "off"}) as running:
        assert reason(running.send(signer(), call("x"), headers={"callgate-agent": "by"})) == (200, "")
        assert running.got()[-1].header("callgate-agent") == []


# ---- the kill switch ----


@requirement("WB-037", "WB-076", "WB-089")
def test_the_environment_shuts_everybody_out_before_anything_is_verified(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by)}}
    with site(tmp_path, agents=section) as running:
        assert reason(running.send(by)) == (200, "")
    with site(tmp_path, {"CALLGATE_BLOCK_ALL": "1"}, agents=section) as running:
        for sender in (by, None, signer()):
            assert reason(running.send(sender, call("search"))) == (403, "blocked_by_policy")
            assert reason(running.send(sender, PLAIN)) == (403, "blocked_by_policy")
            assert reason(running.send(sender, None, method="GET")) == (403, "blocked_by_policy")
        assert running.got() == []
