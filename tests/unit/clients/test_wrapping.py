import json

import pytest

from callgate.clients import GateCommand, Hint, plan_unwrap, plan_wrap
from callgate.clients.locations import ANY, SERVERS
from callgate.clients.plan import gate_name
from callgate.errors import ConfigError
from support.table import rows

GATE = GateCommand(("/opt/my tools/callgate",), ())


def wrapped(text, tables=SERVERS, gate=GATE, only=()):
    return plan_wrap(text, "mcp.json", tables, gate, only)


def one(entry, **options):
    """The entry `s` after wrapping, and its finding."""
    plan = wrapped(json.dumps({"mcpServers": {"s": entry}}), **options)
    return json.loads(plan.after)["mcpServers"]["s"], plan.findings[0]


def test_a_command_gets_the_gate_in_front_and_nothing_else_changes():
    entry = {"command": "npx", "args": ["-y", "a b"], "env": {"A": "1"}, "disabled": True, "cwd": "/x", "own": [1]}
    found, finding = one(entry)
    words = ["wrap", "s", "--", "npx", "-y", "a b"]
    assert found == entry | {"command": "/opt/my tools/callgate", "args": words}
    assert (finding.state, finding.kind, finding.gate) == ("wrap", "stdio", "s")


@rows("args", [{}, {"args": []}])
def test_a_command_without_words(args):
    found, _ = one({"command": "/my server/run", **args})
    assert found["args"] == ["wrap", "s", "--", "/my server/run"]


def test_the_program_may_be_several_words():
    found, _ = one({"command": "x"}, gate=GateCommand(("/py", "-P", "-m", "callgate"), ("-c", "/a.toml")))
    assert found == {"command": "/py", "args": ["-P", "-m", "callgate", "wrap", "s", "-c", "/a.toml", "--", "x"]}


def test_the_older_form_of_zed():
    text = '{"context_servers": {"s": {"command": {"path": "a", "args": ["b"], "env": {}}, "settings": {}}}}'
    plan = wrapped(text, ANY)
    command = json.loads(plan.after)["context_servers"]["s"]["command"]
    assert command == {"path": GATE.program[0], "args": ["wrap", "s", "--", "a", "b"], "env": {}}
    assert plan_unwrap(plan.after, "f", ANY).after == text


def test_an_address_becomes_a_command():
    found, finding = one({"type": "http", "url": "https://tools.example/mcp", "timeout": 5})
    words = ["wrap", "s", "--url", "https://tools.example/mcp"]
    assert found == {"type": "stdio", "command": GATE.program[0], "args": words, "timeout": 5}
    assert (finding.kind, finding.hint, finding.reason) == ("http", Hint("url", "http"), "may_sign_in")


def test_headers_go_into_the_environment_and_their_values_stay_where_they_are():
    headers = {"Authorization": "Bearer ${TOKEN}", "X-Api.Key": "k", "X-Api-Key": "l"}
    found, finding = one({"serverUrl": "https://tools.example/mcp", "headers": headers})
    variables = ["CALLGATE_HEADER_AUTHORIZATION", "CALLGATE_HEADER_X_API_KEY", "CALLGATE_HEADER_X_API_KEY_2"]
    assert found["env"] == dict(zip(variables, headers.values(), strict=True))
    pairs = [f"{header}={variable}" for header, variable in zip(headers, variables, strict=True)]
    assert [word for word in found["args"] if "=" in word] == pairs
    assert finding.hint == Hint("serverUrl", "http")
    assert finding.reason == ""
    assert "Bearer" not in str(found["args"])


@rows(
    "url",
    [
        "https://tools.example/mcp?key=1",
        "https://me:secret@tools.example/mcp",
        "https://tools.example/s/4f9c1b2a7d8e4f9c1b2a/mcp",
        "${SERVER}/mcp",
        "https://${HOST}/mcp",
    ],
)
@rows("headers", [None, {}, {"A": "b"}])
def test_an_address_that_may_be_secret_is_not_on_the_command_line(url, headers):
    entry = {"url": url} if headers is None else {"url": url, "headers": headers}
    text = json.dumps({"mcpServers": {"s": entry}}, indent=2)
    plan = wrapped(text)
    found = json.loads(plan.after)["mcpServers"]["s"]
    assert found["env"]["CALLGATE_URL"] == url
    assert url not in found["args"]
    assert found["args"][2:4] == ["--url-env", "CALLGATE_URL"]
    # Nor on the screen, but for the name of a variable.
    assert url.startswith("${") or url not in str(plan.hunks())
    again = plan_unwrap(plan.after, "f", SERVERS)
    assert url not in str(again.hunks())
    assert json.loads(again.after)["mcpServers"]["s"] == {key: value for key, value in entry.items() if value != {}}


@rows(
    ("entry", "reason"),
    [
        ([], "not_an_object"),
        ({}, "no_command"),
        ({"command": ""}, "no_command"),
        ({"command": 1}, "no_command"),
        ({"command": {"args": []}}, "no_command"),
        ({"command": "x", "args": "-y"}, "args_not_words"),
        ({"command": "x", "args": ["-y", 1]}, "args_not_words"),
        ({"command": "x", "url": "https://a/"}, "command_and_url"),
        ({"url": "ftp://a/"}, "no_address"),
        ({"url": 1}, "no_address"),
        ({"url": "https://a/\ud800"}, "no_address"),
        ({"url": "https://a/ b"}, "no_address"),
        ({"url": "https://a/sse"}, "old_transport"),
        ({"type": "sse", "url": "https://a/x"}, "old_transport"),
        ({"type": "ws", "url": "https://a/x"}, "old_transport"),
        ({"type": "carrier-pigeon", "url": "https://a/x"}, "unknown_type"),
        ({"url": "https://a/x", "oauth": {"clientId": "i"}}, "signs_in"),
        ({"url": "https://a/x", "headersHelper": "/bin/x"}, "signs_in"),
        ({"url": "https://a/x", "env": {"A": "1"}}, "mixed"),
        ({"url": "https://a/x", "headers": {"A B": "1"}}, "odd_headers"),
        ({"url": "https://a/x", "headers": {"A": "1\n2"}}, "odd_headers"),
        ({"url": "https://a/x", "headers": {"A": 1}}, "odd_headers"),
        ({"url": "https://a/x", "headers": {"A": ""}}, "odd_headers"),
        ({"url": "https://a/x", "headers": {"Host": "b"}}, "odd_headers"),
        ({"url": "https://a/x", "headers": []}, "odd_headers"),
        ({"settings": {}}, "extension"),
        ({"source": "extension"}, "extension"),
    ],
)
def test_what_cannot_be_wrapped_is_left_with_the_reason(entry, reason):
    found, finding = one(entry)
    assert found == entry
    assert (finding.state, finding.reason) == ("left", reason)
    assert finding.text


@rows(
    ("entry", "by"),
    [
        ({"command": GATE.program[0], "args": ["wrap", "s", "--", "x"]}, ""),
        ({"command": "callgate", "args": ["wrap", "-c", "a.toml", "s", "--", "x"]}, "callgate"),
        ({"command": "C:\\Programs\\callgate.exe", "args": ["wrap", "s", "--", "x"]}, "C:\\Programs\\callgate.exe"),
        ({"command": "python", "args": ["-m", "callgate", "wrap", "s"]}, "python"),
        ({"command": "uvx", "args": ["callgate@1.0", "wrap", "s", "--url=https://a/"]}, "uvx"),
    ],
)
def test_what_is_wrapped_already_is_left(entry, by):
    found, finding = one(entry)
    assert found == entry
    assert (finding.state, finding.gate, finding.text) == ("wrapped", "s", by)


@rows(
    "entry",
    [
        {"command": "npx", "args": ["wrap", "s", "--", "x"]},
        {"command": "npx", "args": ["not-callgate", "wrap", "s"]},
        {"command": "callgate", "args": ["serve"]},
        {"command": "callgate"},
    ],
)
def test_what_only_looks_like_it_is_wrapped(entry):
    assert one(entry)[1].state == "wrap"


def test_wrapping_twice_changes_nothing():
    text = '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://a/mcp", "headers": {"A": "b"}}}}'
    first = wrapped(text)
    again = wrapped(first.after)
    assert first.changes
    assert not again.changes
    assert [finding.state for finding in again.findings] == ["wrapped", "wrapped"]


def test_only_some_servers():
    plan = wrapped('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}', only=["b"])
    assert [finding.state for finding in plan.findings] == ["other", "wrap"]
    assert json.loads(plan.after)["mcpServers"]["a"] == {"command": "x"}


@rows(
    ("name", "made"),
    [
        ("files", "files"),
        ("GitHub MCP (work)", "github-mcp-work"),
        ("@scope/server", "scope-server"),
        ("_x_", "x"),
        ("日本語", "server"),
        ("", "server"),
        ("a" * 90, "a" * 56),
    ],
)
def test_a_servers_name_becomes_one_that_wrap_takes(name, made):
    assert gate_name(name) == made


def test_two_servers_of_one_file_do_not_get_one_name():
    text = """{"mcpServers": {"Git": {"command": "x"}, "git": {"command": "y"}, "GIT": {"command": "z"},
      "b": {"command": "callgate", "args": ["wrap", "git-2", "--", "x"]}}}"""
    assert [finding.gate for finding in wrapped(text).findings] == ["git", "git-3", "git-4", "git-2"]


def test_the_same_name_in_two_projects_is_the_same_name():
    text = (
        '{"projects": {"/a": {"mcpServers": {"s": {"command": "x"}}}, "/b": {"mcpServers": {"s": {"command": "x"}}}}}'
    )
    findings = wrapped(text, ANY).findings
    assert [(finding.gate, finding.entry.scope) for finding in findings] == [("s", "/a"), ("s", "/b")]


# ---- taking it away ----


def test_an_address_is_put_back_as_it_was_spelt():
    text = """{"mcpServers": {"s": {
  "type": "streamable-http", // how
  "serverUrl": "https://a/mcp",
  "headers": {"Authorization": "Bearer x"}, // secret
}}}"""
    plan = wrapped(text)
    hints = {finding.entry.pointer: finding.hint for finding in plan.findings}
    assert plan_unwrap(plan.after, "f", SERVERS, hints=hints).after == text


def test_an_edited_entry_keeps_its_edits():
    text = wrapped('{"mcpServers": {"s": {"command": "x", "args": ["a"]}}}').after
    edited = text.replace('"a"]', '"a", "b"], "env": {"N": "1"}')
    found = json.loads(plan_unwrap(edited, "f", SERVERS).after)
    assert found == {"mcpServers": {"s": {"command": "x", "args": ["a", "b"], "env": {"N": "1"}}}}


def test_args_with_a_comma_behind_the_last():
    text = '{"mcpServers": {"s": {"command": "callgate", "args": ["wrap", "s", "--", "x", ], }}}'
    assert plan_unwrap(text, "f", SERVERS).after == '{"mcpServers": {"s": {"command": "x", "args": [ ], }}}'


def test_keys_in_another_order():
    text = '{"mcpServers": {"s": {"args": ["wrap", "s", "--url", "https://a/mcp"], "command": "callgate"}}}'
    assert json.loads(plan_unwrap(text, "f", SERVERS).after) == {"mcpServers": {"s": {"url": "https://a/mcp"}}}


@rows(
    ("entry", "reason"),
    [
        ({"command": "callgate", "args": ["wrap", "s"]}, "from_configuration"),
        ({"command": "callgate", "args": ["wrap", "s", "--"]}, "from_configuration"),
        ({"command": "callgate", "args": ["wrap", "s", "--url", "https://a"], "env": {"NEW": "1"}}, "env_added"),
        ({"command": "callgate", "args": ["wrap", "s", "--url-env", "GONE"]}, "no_address"),
    ],
)
def test_what_cannot_be_unwrapped_without_loss_is_left(entry, reason):
    text = json.dumps({"mcpServers": {"s": entry}})
    plan = plan_unwrap(text, "f", SERVERS)
    assert not plan.changes
    assert (plan.findings[0].state, plan.findings[0].reason) == ("left", reason)


def test_an_edit_that_would_break_the_file_is_refused():
    # The two members to take away stand in front of each other: not as we write it, and not worth guessing.
    text = """{"mcpServers": {"s": {"args": ["wrap", "s", "--url-env", "U"], "env": {"U": "https://a?k=1"},
      "command": "callgate"}}}"""
    with pytest.raises(ConfigError, match=r"cannot be changed safely|two changes"):
        plan_unwrap(text, "mcp.json", SERVERS)
