"""Wait behind the gateway for the key or token that an agent shows it, beside a signature, and use it in its name."""

from support.agents_gate import call, known, reason, signer, site
from support.registry import requirement

BEHIND = {"forward_authorization": True}


@requirement("WB-029")
def test_a_key_of_the_gateway_beside_a_signature(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by)}, "api_keys": {"enabled": True}}
    with site(tmp_path, agents=section, behind=BEHIND) as running:
        key = running.api_key("by")
        for sent in (f"Bearer {key}", f"bearer  {key}", key, f"Basic {key}"):
            assert reason(running.send(by, call("search"), headers={"Authorization": sent})) == (200, "")
            assert running.got()[-1].header("authorization") == []
        assert reason(running.send(None, call("search"), headers={"Authorization": f"Bearer {key}"})) == (200, "")
        assert running.got()[-1].header("authorization") == []
        # What is the server's reaches it.
        assert reason(running.send(by, call("search"), headers={"Authorization": "Bearer theirs"})) == (200, "")
        assert running.got()[-1].header("authorization") == [b"Bearer theirs"]
        seen = "\n".join(running.gateway.lines)
        assert key not in seen


@requirement("WB-029")
def test_a_token_beside_a_signature_where_tokens_are_for_the_gateway(tmp_path):
    by = signer()
    section = {
        "mode": "required",
        "known": {"by": known(by)},
        "oauth": {"issuers": {"https://login.example": ""}, "resource": "https://gate.example/mcp"},
    }
    with site(tmp_path, agents=section, behind=BEHIND) as running:
        assert reason(running.send(by, call("search"), headers={"Authorization": "Bearer e30.e30.AA"})) == (200, "")
        assert running.got()[-1].header("authorization") == []
