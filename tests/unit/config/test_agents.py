"""What `[agents]` takes: who could get in unnoticed, and rules that would hold for nobody, are told at the start."""

import pytest

from callgate.agents.directories.lookup import _AGENT
from callgate.agents.model import MAX_WINDOW
from callgate.agents.tokens import ALGORITHMS
from callgate.config import AgentsSection, OAuth, load, parse, parse_address
from callgate.config.agents import agent_name
from callgate.errors import ConfigError
from support.registry import requirement
from support.table import rows

THUMBPRINT = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
JWK = '{ kty = "OKP", crv = "Ed25519", x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }'
OUTSIDE = '[gateway]\nlisten = "0.0.0.0:80"\nallowed_hosts = ["gate.example"]\n'
HERE, THERE = parse_address("127.0.0.1:80"), parse_address("0.0.0.0:80")


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, environ={})
    return [str(problem) for problem in caught.value.problems]


def agents(text):
    return parse(text, environ={}).agents


@requirement("WB-037", "WB-038", "WB-040", "WB-044", "WB-045")
def test_the_defaults():
    section = agents("")
    assert section == AgentsSection()
    assert (section.default, section.known, section.kya.mode, section.api_keys.enabled) == (None, {}, "off", None)
    assert parse("", environ={}).policy.block_all is False
    assert not any(section.rules())
    signed = section.signatures
    assert (signed.max_window_seconds, signed.discovers, signed.content_digest, signed.directories) == (
        MAX_WINDOW,
        "trust",
        None,
        (),
    )
    assert [signed.kid_fallback, signed.rsa_pss_sha256, signed.test_keys, signed.data_uris] == [False, False, False, ()]
    assert signed.nonce == "required"


@rows(
    ("text", "here", "there"),
    [
        ("", "optional", "required"),
        ('[agents]\nmode = "off"', "off", "required"),
        ('[agents]\nmode = "optional"', "optional", "required"),
        ('[agents]\nmode = "required"\n[agents.api_keys]\nenabled = true', "required", "required"),
    ],
)
def test_who_may_be_anybody_always_has_to_say_who_they_are(text, here, there):
    section = agents(text)
    assert (section.in_force(HERE), section.in_force(THERE)) == (here, there)


@rows(
    ("text", "kinds"),
    [
        ("", ()),
        ("[agents.signatures]\nmax_window_seconds = 60", ()),
        ("[agents.signatures]\nenabled = true", ("signatures",)),
        ('[agents.signatures]\ndirectories = ["https://a.example/keys"]', ("signatures",)),
        ('[agents.signatures]\nenabled = false\ndirectories = ["https://a.example/keys"]', ()),
        ('[agents.signatures]\nagents_directory = "https://a.example/agents"', ("signatures",)),
        ('[agents.signatures]\ndiscovery = "allow"\norigins = ["https://a.example"]', ("signatures",)),
        (f"[agents.known.crm]\njwk = {JWK}", ("signatures",)),
        ('[agents.known.crm]\ndirectory = "listed"', ("signatures",)),
        ("[agents.api_keys]\nenabled = true", ("api-keys",)),
        (
            '[agents]\nexternal_url = "https://gate.example"\n[agents.oauth]\nissuers = { "https://login.example" = "" }',
            ("oauth",),
        ),
    ],
)
def test_beyond_loopback_there_has_to_be_a_way_to_prove_who_one_is(text, kinds):
    assert agents(text).kinds == kinds
    if kinds:
        assert parse(OUTSIDE + text, environ={}).agents.in_force(THERE) == "required"
        return
    told = problems(OUTSIDE + text)
    assert any(
        "gateway.listen: 0.0.0.0:80 can be reached from other machines, and nothing here tells" in t for t in told
    )


@rows("mode", ["off", "optional"])
def test_beyond_loopback_nobody_is_let_in_unnamed(mode):
    (problem,) = problems(f'{OUTSIDE}[agents]\nmode = "{mode}"\n[agents.api_keys]\nenabled = true')
    assert problem.startswith("callgate.toml:5: agents.mode: 0.0.0.0:80 can be reached from other machines")


@requirement("WB-027")
@rows(
    "rule",
    [
        '[agents.default]\nallow_tools = ["search"]',
        '[agents.default]\ndeny_tools = ["x"]',
        '[agents.default]\nper_tool = { "send_*" = 1 }',
        f'[agents.known.crm]\njwk = {JWK}\nallow_tools = ["*"]',
        f'[agents.known.crm]\njwk = {JWK}\nservers = {{ one = {{ deny_tools = ["x"] }} }}',
        '[agents.servers.one]\ndeny_tools = ["x"]',
    ],
)
def test_rules_for_tools_and_bodies_that_nobody_signed_do_not_go_together(rule):
    server = '[servers.one]\nurl = "https://x/mcp"\n'
    optional = '[agents.signatures]\ncontent_digest = "optional"\n'
    (problem,) = problems(server + optional + rule)
    assert problem.startswith("callgate.toml:4: agents.signatures.content_digest: rules name tools")
    assert agents(server + rule).names_tools
    assert agents(server + optional).names_tools is False


@requirement("WB-036")
def test_rules_for_an_agent_that_nobody_could_be():
    rule = '[agents.known.crm]\nallow_tools = ["search"]\n'
    (problem,) = problems(rule)
    assert problem.startswith("callgate.toml:1: agents.known.crm: nobody can be recognised as this agent")
    for way in (
        "[agents.api_keys]\nenabled = true",
        '[agents.signatures]\nagents_directory = "https://a.example/agents"',
    ):
        assert agents(rule + way).known["crm"].allow_tools == ("search",)
    assert agents(rule + 'directory = "listed"').known["crm"].signs


@rows(
    ("text", "told"),
    [
        (
            '[agents.signatures]\norigins = ["https://a.example"]',
            'agents.signatures.origins: these count with discovery = "allow"',
        ),
        ('[agents.signatures]\ndiscovery = "allow"', "agents.signatures.discovery: name whose directories"),
        (
            '[agents.signatures]\ndirectories = ["http://a.example"]',
            "agents.signatures.directories[0]: expected an https",
        ),
        ('[agents.signatures]\nallow_addresses = ["10.0.0.1/8"]', "allow_addresses[0]: expected a network"),
        ('[agents.signatures]\ndata_uris = ["short"]', "data_uris[0]: a thumbprint (RFC 7638, SHA-256) has 43"),
        ("[agents.signatures]\ntest_keys = true\nproduction = true", "test_keys: anybody has the private halves"),
        ("[agents.signatures]\nmax_window_seconds = 0", "expected an integer from 1 to 86400"),
        ('[agents.kya]\nmode = "required"\naudience = "us"', "agents.kya.mode: name whose tokens count"),
        (
            '[agents.kya]\nmode = "required"\nissuers = { "https://i.example" = "" }',
            "agents.kya.mode: say whom tokens have to be for",
        ),
        ('[agents.oauth]\nissuers = { "http://i.example" = "" }', "expected an https address"),
        ('[agents.oauth]\nissuers = { "https://i.example" = "" }', "tokens have to be for this gateway"),
        ('[agents.oauth]\nscopes = ["two words"]', "agents.oauth.scopes[0]: a scope is one word"),
        ('[agents]\nmode = "required"', "agents.mode: nobody could prove who they are"),
        ('[agents]\nexternal_url = "https://gate.example/mcp"', "agents.external_url: expected an origin"),
        ("[agents.default]\nburst = 3", "agents.default.burst: this goes with per_minute"),
        ("[agents.default]\nper_minute = 0", "agents.default.per_minute: expected a number from"),
        ('[agents.default]\nallow_tools = [""]', "agents.default.allow_tools[0]: expected a tool's name"),
        (f'[agents.known.crm]\nthumbprint = "{THUMBPRINT}"', "a key counts together with its directory"),
        (f'[agents.known.crm]\njwk = {JWK}\ndirectory = "listed"', "written here or found in a directory, not both"),
        (f'[agents.known.crm]\njwk = {JWK[:-2]}, d = "x" }}', "agents.known.crm.jwk: this is the private half"),
        (f"[agents.known.a]\njwk = {JWK}\n[agents.known.b]\njwk = {JWK}", 'agents.known.b: this jwk is that of "a"'),
        ('[agents.known."a b"]\ndirectory = "listed"', "an agent's name has 1 to 128 printable ASCII"),
        ('[agents.known.crm]\nsubject = "crm"', "agents.known.crm.subject: expected an issuer"),
        ('[agents.known.crm]\nsubject = "https://i.example#crm"', "https://i.example is none of the issuers"),
        ('[agents.servers.gone]\ndeny_tools = ["x"]', "agents.servers.gone: no server of that name is configured"),
        (
            '[agents.known.crm]\ndirectory = "listed"\nservers = { gone = { denied = true } }',
            "agents.known.crm.servers.gone: no server of that name is configured",
        ),
        ("[servers.x]\nurl = 'https://x/mcp'\nheaders = { Callgate-Agent = 'me' }", "the gateway sets this header"),
    ],
)
def test_what_is_wrong_is_told(text, told):
    assert any(told in problem for problem in problems(text)), problems(text)


def test_published_test_keys_are_for_loopback_only():
    text = "[agents.signatures]\nenabled = true\ntest_keys = true\n"
    assert agents(text).signatures.test_keys
    (problem,) = problems(OUTSIDE + text)
    assert "agents.signatures.test_keys: anybody has the private halves" in problem


@requirement("WB-089")
def test_one_flag_in_the_environment_shuts_everybody_out():
    assert load(environ={"CALLGATE_BLOCK_ALL": "1", "CALLGATE_CONFIG": "/dev/null"}).policy.block_all is True
    assert load(environ={"CALLGATE_CONFIG": "/dev/null"}).policy.block_all is False


@rows("name", ["crm", "https://a.example", "a b", "", "ä", "x" * 128, "x" * 129])
def test_names_are_those_that_directories_take(name):
    assert (agent_name(name) is None) == (_AGENT.fullmatch(name) is not None)


def test_algorithms_of_tokens_are_those_of_the_room():
    assert OAuth().algorithms == ALGORITHMS
