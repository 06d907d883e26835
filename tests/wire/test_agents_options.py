"""What an operator may set about signatures and directories, on the wire: first as it is by default, then as it was set."""

import base64
import json

import pytest

from callgate.agents.keys import RSA_PSS_256
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN
from support.agents_crafted import crafted, jwk
from support.agents_gate import INSIDE, PLAIN, reason, signer, site, web
from support.fork_server import CALLGATE, run
from support.gateway import write_config
from support.registry import requirement
from support.table import rows

PLACE = '"@method" "@authority" "@path"'
UNKNOWN = (401, "unknown_keyid")
PASSES = (200, "")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Directories: keys by name, an agent that was never listed, a document that names agents."""
    with web(tmp_path_factory.mktemp("pages")) as made:
        made.signer = signer(made.url)
        made.pages[WELL_KNOWN] = keys(dict(made.signer.jwk), jwk(which=5), jwk(which=1, kid="old-name"), jwk("rsa"))
        made.pages["/keys.json"] = keys(jwk(which=1, kid="old-name"), jwk(which=2), jwk("rsa"))
        yield made


@pytest.fixture(scope="module")
def usual(tmp_path_factory, pages):
    """Signatures, and nothing else set but what lets directories of this machine be fetched."""
    section = {"mode": "required", "signatures": {"enabled": True, "allow_addresses": INSIDE}}
    with site(tmp_path_factory.mktemp("usual"), pages.env, agents=section) as running:
        yield running


@pytest.fixture(scope="module")
def changed(tmp_path_factory, pages):
    """Everything set to something else than its default."""
    keyid = signer_of(which=2)
    pages.pages["/agents.json"] = json.dumps(
        {"agents": [{"keyid": keyid, "agentId": "from-the-document", "directory": f"{pages.url}/keys.json"}]}
    ).encode()
    section = {
        "mode": "required",
        "strangers": "admit",
        "signatures": {
            "allow_addresses": INSIDE,
            "max_window_seconds": 600,
            "nonce": "optional",
            "discovery": "ignore",
            "directories": [f"{pages.url}/keys.json"],
            "agents_directory": f"{pages.url}/agents.json",
            "rsa_pss_sha256": True,
            "kid_fallback": True,
            "data_uris": [signer_of(which=3)],
        },
    }
    with site(tmp_path_factory.mktemp("changed"), pages.env, agents=section) as running:
        yield running


def keys(*entries):
    return json.dumps({"keys": list(entries)}).encode()


def signer_of(**which):
    from support.signed_requests import public

    return public(**which).thumbprint


def outcome(running, headers, body=PLAIN):
    """How it ended; the server heard of it only if it passed."""
    before = len(running.got())
    ended = reason(running.send(None, body, headers=headers))
    assert len(running.got()) == before + (ended == PASSES)
    return ended


def naming(running, uri, **how):
    """A request that names where its key is."""
    covered = f'{PLACE} "signature-agent";key="sig1"'
    return crafted(running, covered=covered, headers={"Signature-Agent": f'sig1="{uri}"'}, **how)


def agent_seen(running):
    return running.got()[-1].header("callgate-agent")


@requirement("WB-034", "WB-051")
def test_how_long_a_signature_may_be_valid(usual, changed, pages):
    assert outcome(usual, naming(usual, pages.url, which=5, lasts=480)) == PASSES
    assert outcome(usual, naming(usual, pages.url, which=5, lasts=481)) == (401, "window_too_large")
    assert outcome(changed, crafted(changed, which=1, lasts=600)) == PASSES
    assert outcome(changed, crafted(changed, which=1, lasts=601)) == (401, "window_too_large")


@requirement("WB-059", "WB-087")
def test_whether_a_signature_needs_a_nonce(usual, changed, pages):
    assert outcome(usual, naming(usual, pages.url, which=5, nonce=None)) == (400, "missing_required_param")
    without = crafted(changed, which=1, nonce=None)
    assert outcome(changed, without) == PASSES
    once = crafted(changed, which=1, lasts=600)
    assert outcome(changed, once) == PASSES
    assert outcome(changed, once) == (401, "nonce_replay")


@requirement("WB-047", "WB-048", "WB-035")
def test_whether_the_directory_that_a_request_names_is_fetched(usual, changed, pages):
    assert outcome(usual, naming(usual, pages.url, which=5)) == PASSES
    assert agent_seen(usual) == [signer_of(which=5).encode()]
    before = pages.asked.count(WELL_KNOWN)
    assert before
    assert outcome(changed, naming(changed, pages.url, which=5)) == UNKNOWN
    assert pages.asked.count(WELL_KNOWN) == before


@requirement("WB-046")
def test_directories_that_count_for_every_request(usual, changed):
    assert outcome(usual, crafted(usual, which=1)) == UNKNOWN
    assert outcome(changed, crafted(changed, which=1)) == PASSES


@requirement("WB-020", "WB-030", "WB-035")
def test_a_document_that_names_agents(changed):
    assert outcome(changed, crafted(changed, which=2)) == PASSES
    assert agent_seen(changed) == [b"from-the-document"]
    assert outcome(changed, crafted(changed, which=1)) == PASSES
    assert agent_seen(changed) == [signer_of(which=1).encode()]


@requirement("WB-005")
def test_a_key_by_the_name_that_its_directory_gives_it(usual, changed, pages):
    named = naming(usual, pages.url, which=1, keyid="old-name")
    assert outcome(usual, named) == UNKNOWN
    assert outcome(changed, crafted(changed, which=1, keyid="old-name")) == PASSES
    # What goes on is the key's own name.
    assert agent_seen(changed) == [signer_of(which=1).encode()]


@requirement("WB-015")
def test_an_older_algorithm(usual, changed, pages):
    older = {"kind": "rsa", "alg": RSA_PSS_256, "algorithm": RSA_PSS_256}
    assert outcome(usual, naming(usual, pages.url, **older)) == (400, "unsupported_alg")
    assert outcome(usual, naming(usual, pages.url, kind="rsa")) == PASSES
    assert outcome(changed, crafted(changed, **older)) == PASSES


def inline(which):
    raw = base64.b64encode(keys(jwk(which=which))).decode()
    return f"data:{DIRECTORY_TYPE};base64,{raw}"


@requirement("WB-093")
def test_keys_inside_a_request(usual, changed):
    assert outcome(usual, naming(usual, inline(3), which=3)) == UNKNOWN
    assert outcome(changed, naming(changed, inline(3), which=3)) == PASSES
    assert outcome(changed, naming(changed, inline(4), which=4)) == UNKNOWN


@requirement("WB-011", "WB-033")
def test_directories_of_inner_hosts_are_not_asked_by_default(tmp_path, pages):
    section = {"mode": "required", "signatures": {"enabled": True}}
    with site(tmp_path, pages.env, agents=section) as running:
        before = len(pages.asked)
        places = (pages.url, f"https://127.0.0.1:{pages.port}", f"https://[::1]:{pages.port}", "https://10.0.0.1")
        for uri in (*places, "https://169.254.169.254", "https://169.254.169.254/latest"):
            assert outcome(running, naming(running, uri, which=5)) == UNKNOWN
        assert len(pages.asked) == before


@requirement("WB-092", "WB-048")
def test_only_directories_that_are_allowed_and_signed(tmp_path, pages):
    signatures = {
        "discovery": "allow",
        "origins": [pages.url],
        "require_signed_directories": True,
        "allow_addresses": INSIDE,
    }
    with site(tmp_path, pages.env, agents={"mode": "required", "signatures": signatures}) as running:
        before = len(pages.asked)
        assert outcome(running, naming(running, f"https://127.0.0.1:{pages.port}", which=5)) == UNKNOWN
        assert outcome(running, naming(running, f"{pages.url}/keys.json", which=1)) == UNKNOWN
        assert len(pages.asked) == before
        # Fetched, and not believed: nobody signed it.
        assert outcome(running, naming(running, pages.url, which=5)) == UNKNOWN
        assert len(pages.asked) == before + 1


# RFC 9421 appendix B.1.4 prints this key with its private half.
PRINTED = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")


@requirement("WB-055")
def test_keys_that_everybody_has(tmp_path, pages):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from callgate.agents.signing import Signer

    by = Signer(Ed25519PrivateKey.from_private_bytes(PRINTED), None)
    pages.publish(by, path="/printed.json")
    named = {"enabled": True, "allow_addresses": INSIDE, "directories": [f"{pages.url}/printed.json"]}
    section = {"mode": "required", "signatures": named}
    with site(tmp_path, pages.env, agents=section) as running:
        assert reason(running.send(by)) == UNKNOWN
    section["signatures"] |= {"test_keys": True}
    with site(tmp_path, pages.env, agents=section) as running:
        assert reason(running.send(by)) == PASSES


OUTSIDE = {"listen": "0.0.0.0:0", "allowed_hosts": ["127.0.0.1"]}


@requirement("WB-055")
@rows(
    "sections",
    [
        {"agents": {"signatures": {"enabled": True, "test_keys": True, "production": True}}},
        {"gateway": OUTSIDE, "agents": {"signatures": {"enabled": True, "test_keys": True}}},
    ],
    ids=["said so", "beyond loopback"],
)
def test_production_does_not_start_with_keys_for_tests(tmp_path, sections):
    config = write_config(tmp_path, {"one": {"url": "http://127.0.0.1:1/mcp"}}, **sections)
    for words in (["serve"], ["check"]):
        done = run([CALLGATE, *words, "-c", str(config)])
        assert done.returncode != 0
        assert "private halves of these keys" in " ".join(done.stderr.split())
