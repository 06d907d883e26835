"""`callgate agents keygen|directory|sign|verify`, for whoever runs an agent."""

import io
import json
import re
import shlex
import signal
import stat
import subprocess
import threading

import httpx2
import pytest

from callgate.agents.directories.publishing import prove
from callgate.agents.fetching import FetchResponse
from callgate.agents.keys import read_keys
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN
from callgate.cli import run
from callgate.errors import Reason
from callgate.sdk.agent_keys import AgentKey
from support.fork_server import CALLGATE
from support.registry import requirement
from support.signed_site import signed_site
from support.table import rows

URL = "https://gate.example/mcp?x=1"
BODY = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
def agents(here, capsysbinary, monkeypatch):
    """The command line in a folder with a key."""
    AgentKey.generate().write(here / "agent.pem")

    def typed(*words, code=0, stdin=None):
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        found = run(["agents", *words])
        out, err = capsysbinary.readouterr()
        assert found == code, err.decode()
        return out.decode(), err.decode()

    return typed


@pytest.fixture
def captured(agents):
    """A request as it goes over the wire."""
    return agents("sign", URL, "-d", BODY, "--directory", "https://agent.example", "--raw")[0].encode()


@rows(("name", "kind"), [("new.pem", "ed25519"), ("new.json", "p256")])
def test_a_key_is_made_for_its_owner_alone(here, agents, name, kind):
    out, err = agents("keygen", name, "--kind", kind)
    assert stat.S_IMODE((here / name).stat().st_mode) == 0o600
    key = AgentKey.read(here / name)
    assert key.thumbprint in out
    assert json.dumps(dict(key.jwk)) in out
    assert '"d"' not in out
    command = re.search(r"`callgate (.+?)`", err)[1]
    assert run(shlex.split(command)) == 0
    assert "there already" in agents("keygen", name, code=1)[1]


def test_the_directory_has_the_public_halves_only(here, agents):
    agents("keygen", "second.json")
    out, err = agents("directory", "agent.pem", "second.json")
    keys = json.loads(out)["keys"]
    assert [key.keys() for key in keys] == [{"kty", "crv", "x"}] * 2
    assert WELL_KNOWN in err
    assert "no origin" in agents("directory", "agent.pem", "--origin", "agent.example", code=1)[1]


@requirement("WB-092")
def test_a_directory_is_signed_by_each_key_for_its_place_alone(agents):
    agents("keygen", "second.json")
    out, err = agents("directory", "agent.pem", "second.json", "--origin", "https://agent.example")
    headers = tuple(
        (name.lower().encode(), value.encode())
        for name, value in (line.split(": ", 1) for line in err.splitlines() if re.match(r"[A-Z][\w-]+: ", line))
    )
    assert (b"content-type", DIRECTORY_TYPE.encode()) in headers
    keys = {key.thumbprint: key for key in read_keys(out.encode(), "x").keys.values()}
    now = int(re.search(r"created=(\d+)", err)[1])
    for host, proven in (("agent.example", 2), ("evil.example", 0)):
        answer = FetchResponse(f"https://{host}{WELL_KNOWN}", out.encode(), headers)
        assert len(prove(answer, keys, now, digest=True)[0]) == proven


def test_the_directory_is_served_freshly_signed(here, agents):
    argv = [CALLGATE, "agents", "directory", "agent.pem", "--origin", "https://agent.example", "--serve", "127.0.0.1:0"]
    with subprocess.Popen(argv, cwd=here, stderr=subprocess.PIPE, text=True) as served:
        timer = threading.Timer(60, served.kill)
        timer.start()
        try:
            address = re.search(r"http://\S+directory", served.stderr.readline())[0]
            answer = httpx2.get(address, headers={"Host": "evil.example"})
            keys = {key.thumbprint: key for key in read_keys(answer.content, "x").keys.values()}
            raw = tuple((name.lower(), value) for name, value in answer.headers.raw)
            now = int(re.search(r"created=(\d+)", answer.headers["signature-input"])[1])
            # Whatever name it is asked by, it vouches for its own.
            for host, proven in (("agent.example", 1), ("evil.example", 0)):
                found = FetchResponse(f"https://{host}{WELL_KNOWN}", answer.content, raw)
                assert len(prove(found, keys, now, digest=True)[0]) == proven
            assert httpx2.get(address.removesuffix(WELL_KNOWN)).status_code == 404
        finally:
            timer.cancel()
            served.send_signal(signal.SIGINT)
            assert served.wait(20) == 0


def test_what_is_signed_verifies(agents, captured):
    out, _ = agents("verify", "-k", "agent.pem", stdin=captured)
    assert '"@authority": gate.example' in out
    assert '"@query": ?x=1' in out
    assert '"@signature-params": (' in out
    assert "OK: label sig1" in out
    assert "the body is bound" in out


@requirement("WB-056", "WB-094")
@rows(
    ("change", "reason"),
    [
        (lambda raw: raw.replace(b"ping", b"pong"), "content_digest_mismatch"),
        (lambda raw: raw.replace(b"x=1", b"x=2"), "signature_invalid"),
        (lambda raw: raw.replace(b"Host: gate.example", b"Host: other.example"), "signature_invalid"),
        (lambda raw: re.sub(rb"Signature: [^\r]*", b'Signature: sig1="text"', raw), "signature_malformed"),
        (lambda raw: raw.replace(b"web-bot-auth", b"other"), "wrong_tag"),
        (lambda raw: re.sub(rb"Signature: [^\r]*\r\n", b"", raw), "missing_signature_headers"),
        (lambda raw: re.sub(rb"Signature-Input: [^\r]*", b"Signature-Input: ((", raw), "signature_input_malformed"),
        (lambda raw: re.sub(rb"created=\d+", b"created=1.5", raw), "timestamp_not_integer"),
        (lambda raw: re.sub(rb"expires=\d+", b"expires=9999999999", raw), "window_too_large"),
    ],
)
def test_what_is_wrong_is_told_with_its_reason(agents, captured, change, reason):
    assert change(captured) != captured
    out, _ = agents("verify", "-k", "agent.pem", "--json", stdin=change(captured), code=1)
    found = json.loads(out)
    assert (found["ok"], found["reason"], found["status"]) == (False, reason, Reason(reason).status)
    out, err = agents("verify", "-k", "agent.pem", stdin=change(captured), code=1)
    assert f"Refused: {reason} ({Reason(reason).status})" in out
    assert err


def test_a_body_that_is_not_covered_is_told(agents):
    raw = agents("sign", URL, "-d", BODY, "--no-digest", "--raw")[0].encode()
    assert "the body is NOT bound" in agents("verify", "-k", "agent.pem", stdin=raw)[0]
    out, _ = agents("verify", "-k", "agent.pem", "--require-digest", "--json", stdin=raw, code=1)
    assert json.loads(out)["reason"] == "content_digest_required"


def test_a_request_of_another_time_and_with_other_labels(here, agents, captured):
    old = captured
    for name in (b"created", b"expires"):
        old = re.sub(name + rb"=(\d+)", lambda found: found[0].replace(found[1], b"%d" % (int(found[1]) - 9000)), old)
    out, err = agents("verify", "-k", "agent.pem", stdin=old, code=1)
    assert "signature_expired" in out
    assert "When it was signed: signature_invalid." in err
    created = re.search(rb"created=(\d+)", captured)[1].decode()
    for at in ("created", created):
        assert "OK: label sig1" in agents("verify", "-k", "agent.pem", "--at", at, stdin=captured)[0]
    (here / "request.txt").write_bytes(captured)
    out, err = agents("verify", "request.txt", "--at", "2020-01-01", "-k", "agent.pem", code=1)
    assert "created_in_future" in out
    assert "When it was signed: it held." in err
    two = re.sub(rb"Signature-Input: ([^\r]*)", rb'Signature-Input: \1, other=("@path");tag="x"', captured)
    two = re.sub(rb"Signature: ([^\r]*)", rb"Signature: \1, other=:AAAA:", two)
    out, _ = agents("verify", "-k", "agent.pem", stdin=two)
    assert "label other  (wrong_tag)" in out
    assert "OK: label sig1" in out


def test_without_the_key_the_base_is_shown_all_the_same(agents, captured):
    out, err = agents("verify", stdin=captured, code=1)
    assert '"@method": POST' in out
    assert "unknown_keyid" in out
    assert "--key FILE" in err


def test_what_curl_printed_is_read_as_well(agents):
    bare = agents("sign", URL, "--raw", "-X", "DELETE")[0].encode().partition(b"\r\n\r\n")[0]
    shown = (
        b"* Connected\n" + b"".join(b"> " + line + b"\r\n" for line in bare.split(b"\r\n")) + b"> \r\n< HTTP/1.1 200\n"
    )
    assert "OK: label sig1" in agents("verify", "-k", "agent.pem", stdin=shown)[0]


@rows("text", [b"", b"hello", b"POST /x HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.1\r\nno header\r\n\r\n"])
def test_what_is_no_request_is_told(agents, text):
    assert agents("verify", stdin=text, code=1)[1]


@rows("form", ["curl", "headers", "json"])
def test_the_printed_request_is_let_in(here, agents, form):
    key = AgentKey.read(here / "agent.pem")
    with signed_site(key, verify={"content_digest": "required"}) as origin:
        words = ["sign", f"{origin}/echo", "-d", BODY, "-H", "Content-Type: application/json", "-H", "X-A: it's"]
        if form == "curl":
            out, _ = agents(*words, "--curl")
            assert out.startswith("curl ")
            done = subprocess.run(["sh", "-c", out], capture_output=True, text=True, timeout=60, check=True)
            got = json.loads(done.stdout)
        elif form == "json":
            made = json.loads(agents(*words, "--json")[0])
            got = httpx2.request(made["method"], made["url"], headers=made["headers"], content=BODY).json()
        else:
            made = dict(line.split(": ", 1) for line in agents(*words)[0].splitlines())
            got = httpx2.post(f"{origin}/echo", headers=made, content=BODY).json()
    assert (got["agent"], got["bound"]) == ("alice", True)


def test_more_can_be_covered_and_mistakes_are_told(agents):
    out, _ = agents("sign", URL, "-H", "X-A: 1", "--cover", "x-a", "--legacy", "--directory", "https://agent.example")
    assert '"x-a"' in out
    assert 'Signature-Agent: "https://agent.example"' in out
    assert "x-b" in agents("sign", URL, "--cover", "x-b", code=1)[1]
    # For verifiers that have another value for an absent query.
    out, _ = agents("sign", URL, "--without", "@query", "--without", "@path", "--cover", "@target-uri", "--no-digest")
    assert 'sig1=("@method" "@authority" "@target-uri");' in out
    assert "not covered anyway" in agents("sign", URL, "--without", "x-a", code=2)[1]
    assert "has to cover" in agents("sign", URL, "--without", "@authority", code=2)[1]
    assert agents("sign", "gate.example", code=1)[1]
    assert agents("sign", URL, "-H", "nonsense", code=2)[1]
    assert agents("sign", URL, "-d", "@missing", code=2)[1]
    assert agents("sign", URL, "-k", "missing.pem", code=1)[1]


def test_every_command_that_a_reason_names_is_there():
    named = {
        command
        for reason in Reason
        for command in re.findall(r"`callgate (agents \w+)", f"{reason.meaning} {reason.advice}")
    }
    assert {"agents add", "agents sign", "agents verify", "agents why"} <= named
    for command in named:
        assert run([*command.split(), "--help"]) == 0, command
