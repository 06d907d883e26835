"""What `[approval]` takes: names, addresses and domains that would leave nobody able to sign are told at once."""

import pytest

from callgate.approval.action import check_server_id
from callgate.approval.people import check_user_name
from callgate.config import load, parse
from callgate.config.rules import user_name
from callgate.errors import ConfigError, Refused
from support.registry import requirement
from support.table import rows


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, environ={})
    return [str(problem) for problem in caught.value.problems]


def approval(**keys):
    lines = (f"{key} = {[*value]}" if isinstance(value, tuple) else f'{key} = "{value}"' for key, value in keys.items())
    return "[approval]\n" + "\n".join(lines)


@rows(
    ("url", "rp_id"),
    [
        ("https://gate.example", "gate.example"),
        ("https://gate.example/", "gate.example"),
        ("https://gate.example:8443", "gate.example"),
        ("https://a.gate.example", "gate.example"),
        ("https://a.b.gate.example", "b.gate.example"),
        ("https://intranet", "intranet"),
        ("http://localhost:9000", "localhost"),
        ("https://localhost", "localhost"),
    ],
)
def test_pages_and_the_domain_of_their_passkeys_go_together(url, rp_id):
    section = parse(approval(url=url, rp_id=rp_id)).approval
    assert (section.url, section.rp_id) == (url, rp_id)


def test_without_an_address_passkeys_are_for_this_machine():
    assert parse("[approval]\nenabled = true").approval.rp_id == "localhost"
    assert parse(approval(rp_id="gate.example", origins=("https://agent.gate.example",))).approval.url is None


def test_the_mistake_of_everybody_is_told_with_what_to_write():
    (problem,) = problems('[approval]\nurl = "https://gate.example:8443"')
    assert problem.startswith("callgate.toml:2: approval.url: ")
    assert problem.endswith('write rp_id = "gate.example" beside url in [approval]')
    right = '[approval]\nurl = "https://gate.example:8443"\nrp_id = "gate.example"'
    assert parse(right).approval.rp_id == "gate.example"


@rows(
    ("url", "rp_id", "text"),
    [
        ("https://gate.example", "other.example", 'write rp_id = "gate.example"'),
        ("https://gate.example", "ate.example", 'write rp_id = "gate.example"'),
        ("https://evilgate.example", "gate.example", 'write rp_id = "evilgate.example"'),
        ("https://gate.example", "a.gate.example", 'write rp_id = "gate.example"'),
        ("https://gate.example", "example", 'write rp_id = "gate.example"'),
        ("http://localhost:8420", "gate.example", "take rp_id away"),
    ],
)
def test_a_domain_that_is_not_the_pages_own_or_above_it(url, rp_id, text):
    (problem,) = problems(approval(url=url, rp_id=rp_id))
    assert "approval.rp_id" in problem
    assert text in problem


def test_a_domain_without_a_page():
    (problem,) = problems(approval(rp_id="gate.example"))
    assert 'write url = "https://gate.example" as well' in problem


@rows(
    "rp_id",
    [
        "",
        "https://gate.example",
        "gate.example:443",
        "gate.example/",
        "Gate.example",
        "gate.example.",
        "a..b",
        "*.example",
    ],
)
def test_what_is_no_domain(rp_id):
    (problem,) = problems(approval(rp_id=rp_id))
    assert "expected a domain in small letters" in problem


@rows("host", ["127.0.0.1", "[::1]", "10.1", "0x7f.1", "2130706433"])
def test_an_ip_address_has_no_passkeys(host):
    assert "never to an IP address" in problems(approval(rp_id=host))[0]
    (problem,) = problems(approval(url=f"http://{host}:8420"))
    assert "never to an IP address" in problem
    assert '"http://localhost:8420"' in problem
    assert "never to an IP address" in problems(approval(url=f"https://{host}"))[0]


@rows("key", ["url", "origins", "top_origins"])
@rows(
    ("value", "text"),
    [
        ("http://gate.example", "write https"),
        ("http://localhost.example:80", "write https"),
        ("ws://gate.example", "expected"),
        ("gate.example", "expected"),
        ("https://gate.example/console", "expected"),
        ("https://gate.example?x", "expected"),
        ("https://u@gate.example", "expected"),
        ("https://gate.example:99999", "expected"),
        ("https://", "expected"),
        ("https://*.gate.example", "wildcards"),
        ("https://Gate.example", 'browsers spell this origin "https://gate.example"'),
        ("https://gate.example:443", 'browsers spell this origin "https://gate.example"'),
        ("http://localhost:80", 'browsers spell this origin "http://localhost"'),
    ],
)
def test_what_is_no_origin_for_passkeys(key, value, text):
    given = value if key == "url" else (value,)
    (problem,) = problems(approval(**{key: given}))
    assert text in problem
    assert f"approval.{key}" in problem


@rows("value", ["https://agent.example", "https://agent.example:8443", "http://localhost:6274", "http://localhost"])
def test_origins(value):
    section = parse(approval(origins=(value,), top_origins=(value,))).approval
    assert section.origins == section.top_origins == (value,)


def test_any_port_of_this_machine_may_sign_but_not_frame():
    assert parse(approval(origins=("http://localhost:*",))).approval.origins == ("http://localhost:*",)
    # Nothing would ever match it there.
    assert "wildcards are not taken" in problems(approval(top_origins=("http://localhost:*",)))[0]
    assert "wildcards are not taken" in problems(approval(origins=("https://localhost:*",)))[0]


NAMES = [
    "alice",
    "Alice.Adams",
    "a@b.example",
    "7",
    "a" * 64,
    "",
    "-a",
    "a b",
    "a" * 65,
    "ali\x1bce",
    "älice",
    "a/b",
    "a\n",
]


@rows("name", NAMES)
def test_a_persons_name_is_taken_here_where_it_is_taken_at_enrolment(name):
    try:
        check_user_name(name)
    except Refused:
        taken = False
    else:
        taken = True
    assert (user_name(name) is None) is taken


@rows("table", ["approval", "servers.files.approval"])
def test_a_name_that_nobody_can_have(table):
    server = '[servers.files]\nurl = "https://tools.example/mcp"\n'
    (problem,) = problems(f'{server}[{table}]\nuser = "Alice Adams"')
    assert f"{table}.user: a user's name has 1 to 64 letters" in problem
    assert parse(f'{server}[{table}]\nuser = "alice"').servers["files"].url is not None


def test_it_is_told_by_load_too(tmp_path):
    path = tmp_path / "callgate.toml"
    path.write_text(approval(url="https://gate.example"))
    with pytest.raises(ConfigError, match=r'write rp_id = "gate.example"'):
        load(path, environ={})


@requirement("VA-094")
@rows("server_id", ["mcp-default", "MCP-Default", " default ", "server", "callgate", "mcp", "MCP"])
def test_an_id_that_other_servers_have_is_refused_as_the_library_refuses_it(server_id):
    (told,) = problems(approval(server_id=server_id))
    assert "not unique" in told or "blank" in told
    with pytest.raises(ConfigError):
        check_server_id(server_id)


def test_models_of_authenticators_need_attestation():
    """Without it, a passkey says of itself what it is."""
    model = ("ee882879-721c-4913-9775-3dfcce97072a",)
    (told,) = problems(approval(aaguids=model))
    assert 'attestation = "direct"' in told
    assert (
        parse(approval(aaguids=model, attestation="direct", attestation_roots=("maker.pem",))).approval.aaguids == model
    )


BOTH = 'methods = ["passkey", "device"]'


@requirement("VA-181")
@rows(
    ("section", "wrong"),
    [
        ('methods = ["device"]', "passkeys are always taken"),
        ('methods = ["passkey", "sms"]', "sms"),
        (f'{BOTH}\nauthenticator_class = "cross-platform"', "weaker than the passkeys"),
        (f"{BOTH}\nrequire_counter = true", "weaker than the passkeys"),
        (f"require_counter = true\n[servers.bank.approval.demands.pay]\n{BOTH}", "weaker than the passkeys"),
        ('[servers.bank.approval.demands.pay]\nmethods = ["device"]', "passkeys are always taken"),
    ],
)
def test_ways_to_answer_that_do_not_go_together(section, wrong):
    text = f'[servers.bank]\nurl = "https://bank.example/mcp"\n[servers.bank.approval]\n{section}\n'
    (told,) = problems(text)
    assert wrong in told


def test_passkeys_are_the_only_way_where_nothing_is_said():
    text = '[servers.bank]\nurl = "https://bank.example/mcp"\n[servers.bank.approval]\ntools = ["pay"]\n'
    assert parse(text).servers["bank"].approval.methods == ("passkey",)
    assert parse(f'{text}{BOTH}\nauthenticator_class = "platform"').servers["bank"].approval.methods == (
        "passkey",
        "device",
    )
