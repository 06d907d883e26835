"""No two servers have one identity: what a server says of itself cannot make it another one."""

import re

from hypothesis import assume, example, given
from hypothesis import strategies as st

from callgate.pinning.identity import http_identity, library_identity, reported_as, stdio_identity
from support.registry import requirement

# Letters that meet in earnest, and those that an attacker would choose.
TRICKY = st.text(alphabet="a1 ()[]%@#:/~\\.,\n\u202e\u200b\ud800é\"'28", max_size=12)
said = TRICKY | st.text(max_size=300) | st.sampled_from(["srv 1.0", "srv 1.0) (x", "%28", "~sha256:", " as tls:a"])
names = st.from_regex(r"(@[a-z][a-z0-9]{0,3}/)?[a-z][a-z0-9-]{0,5}", fullmatch=True)
versions = st.from_regex(r"[0-9]\.[0-9]\.[0-9](-rc\.[0-9])?", fullmatch=True) | st.sampled_from(
    ["", "latest", "^1.2.3"]
)
paths = st.text(alphabet="abA. ()#%@:é", min_size=1, max_size=6).map(lambda text: "/nowhere/" + text)

EXACT = re.compile(r"[0-9]\.[0-9]\.[0-9](-rc\.[0-9])?")


def npm(name, version, reported):
    """The command, and what makes this server this one."""
    exact = bool(EXACT.fullmatch(version))
    argv = ["npx", "-y", f"{name}@{version}" if version else name]
    return stdio_identity(argv, reported=reported), ("npm", name, version if exact else "", "" if exact else reported)


def program(path, runner, reported):
    argv = [runner, path] if runner else [path]
    return stdio_identity(argv, reported=reported), ("file", path.replace("/./", "/"), runner, reported)


def http(host, path, authenticated, reported):
    found = http_identity(f"https://{host}{path}", authenticated=authenticated or None, reported=reported)
    return found, ("http", host, path or "/", authenticated or f"tls:{host}", reported)


def library(name, version, reported):
    return library_identity(name, version=version, reported=reported), (
        "library",
        name,
        version,
        "" if version else reported,
    )


hosts = st.sampled_from(["a.example", "b.example", "a.example:8443"])
url_paths = st.text(alphabet="/ab.~-", max_size=5).map(lambda text: "/" + text if text else "")
servers = (
    st.builds(npm, names, versions, said)
    | st.builds(program, paths.filter(lambda p: not p.endswith(".")), st.sampled_from(["", "python3", "node"]), said)
    | st.builds(http, hosts, url_paths.filter(lambda p: not p.startswith("//")), TRICKY, said)
    | st.builds(library, TRICKY, TRICKY, said)
)


@requirement("TP-049")
@given(servers, servers)
@example(npm("a", "", "x 1"), npm("a", "1.2.3", ""))
@example(npm("a", "", "x) (y"), npm("a", "", "x%29 %28y"))
@example(library("a", "1", ""), library("a@1", "", ""))
@example(library("a", "", "b"), library("a (b)", "", ""))
@example(http("a.example", "/", "", "x"), http("a.example", "/", "tls:a.example (x)", ""))
@example(http("a.example", "/", "", "x" * 300), http("a.example", "/", "", "x" * 200 + "~"))
def test_two_servers_with_one_identity_are_the_same_server(one, other):
    (left, left_parts), (right, right_parts) = one, other
    # A port is part of the origin and not of the certificate's name.
    if left.server_id == right.server_id:
        assert _plain(left_parts) == _plain(right_parts)


def _plain(parts):
    return tuple(part.replace(":8443", "") if part.startswith("tls:") else part for part in parts)


@requirement("TP-049")
@given(servers, said)
def test_an_identity_is_plain_text_and_bounded_whatever_a_server_says(server, reported):
    found, _ = server
    assert found.server_id.isascii()
    assert found.server_id.isprintable()
    assert len(found.server_id) < 1_000
    assert found.reported.isprintable()
    assert len(found.reported) <= 201
    assert "\n" not in " ".join(found.warnings)


@requirement("TP-027", "TP-049")
@given(said, said)
def test_a_server_that_says_another_thing_is_another_server(one, other):
    assume(one != other)
    assert http_identity("https://a.example/", reported=one) != http_identity("https://a.example/", reported=other)
    left, right = (http_identity("https://a.example/", reported=text).server_id for text in (one, other))
    assert left != right
    assert stdio_identity(["npx", "a@1.2.3"], reported=one).server_id == "npm:a@1.2.3"


@given(TRICKY, TRICKY, TRICKY, TRICKY)
def test_name_and_version_are_told_apart(name, version, other_name, other_version):
    if reported_as(name, version) == reported_as(other_name, other_version):
        assert (name, version) == (other_name, other_version)


@given(
    st.lists(
        st.text(max_size=12) | st.sampled_from(["npx", "-y", "--", "uvx", "docker", "run", "sh", "-c"]), max_size=8
    )
)
def test_no_command_raises(argv):
    found = stdio_identity(argv, cwd="/nowhere", environ_path="/nowhere", reported="x")
    assert found.server_id.isascii()
    assert found.lineage
