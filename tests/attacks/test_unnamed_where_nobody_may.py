"""Do not say who one is: be asked for less than those who do."""

import pytest

from callgate.config import parse
from callgate.errors import ConfigError
from support.agents_gate import PLAIN, call, known, reason, signer, site
from support.registry import requirement
from support.table import rows

READ = b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"notes://1"}}'
KYA = '[agents.kya]\nmode = "required"\naudience = "us"\nissuers = { "https://issuer.example" = "" }\n'
REACHED = '[gateway]\nlisten = "0.0.0.0:80"\nallowed_hosts = ["gate.example"]\n[agents.signatures]\nenabled = true\n'


def test_who_is_refused_everything_reads_nothing_either(tmp_path):
    by = signer()
    section = {"known": {"by": known(by)}, "default": {"denied": True}}
    with site(tmp_path, agents=section) as running:
        for body in (READ, PLAIN, call("search")):
            assert reason(running.send(None, body)) == (403, "agent_denied")
        assert reason(running.send(None, None, method="GET")) == (403, "agent_denied")
        # A credential that is not for the gateway makes nobody an agent.
        assert reason(running.send(None, READ, headers={"Authorization": "Basic eDp5"})) == (403, "agent_denied")
        assert running.got() == []
        assert reason(running.send(by, READ)) == (200, "")


@requirement("WB-081")
@rows("mode", ["", '[agents]\nmode = "optional"\n', '[agents]\nmode = "off"\n'])
def test_tokens_that_are_required_of_those_only_who_sign(mode):
    with pytest.raises(ConfigError, match=r"agents\.kya\.mode: who does not sign would need no token"):
        parse(mode + KYA, environ={})


@requirement("WB-081")
def test_tokens_that_are_required_of_everybody():
    everybody = '[agents]\nmode = "required"\n[agents.signatures]\nenabled = true\n'
    assert parse(everybody + KYA, environ={}).agents.kya.mode == "required"
    assert parse(REACHED + KYA, environ={}).agents.kya.mode == "required"


@rows(
    "rules",
    [
        '[agents.default]\ndeny_tools = ["drop_*"]',
        "[agents.default]\ndenied = true",
        "[agents.servers.one]\nper_minute = 1",
        '[agents.known.by]\ndirectory = "https://agent.example"\nallow_tools = ["search"]',
    ],
)
def test_rules_where_nobody_is_asked(rules):
    server = '\n[servers.one]\nurl = "https://x/mcp"\n'
    with pytest.raises(ConfigError, match=r"agents\.mode: nobody is asked who they are, and these rules would hold"):
        parse(f'[agents]\nmode = "off"\n{rules}{server}', environ={})
    assert parse(f"{rules}{server}", environ={}).agents.mode == "auto"
