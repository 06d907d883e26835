"""The stored approvals are edited, cut, forged, unreadable or without their key, or a hash cannot be made: no tool runs."""

import base64
import contextlib
import json
import os
import re
import shutil
import sqlite3

import pytest

from callgate.cli.gateway import end
from callgate.local.place import Place
from support.gateway import Gateway
from support.pinning import pinned_site
from support.raw_clients import Way, over_ways, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

SERVED = [Way("serve", "legacy", "web"), Way("serve", "modern", "pipe")]
WRAPPED = [Way("wrap", "legacy", "pipe")]


def execute(site, *statements):
    with contextlib.closing(sqlite3.connect(site.gateway.store)) as base:
        for text, *values in statements:
            base.execute(text, values)
        base.commit()


def edit_a_row(site):
    """One byte of the approval's body."""
    execute(
        site, ("UPDATE pin SET body = CAST(substr(body, 1, 40) || x'00' || substr(body, 42) AS BLOB) WHERE seq = 1",)
    )


def make_a_row_text(site):
    """Of another type than the store's own: not even bytes."""
    execute(site, ("UPDATE pin SET body = 'approved', mac = 'approved' WHERE seq = 2",))


def swap_the_hash(site):
    """Another tool's row under this row's number."""
    execute(site, ("UPDATE pin SET body = (SELECT body FROM pin WHERE seq = 2) WHERE seq = 1",))


def drop_the_block(site):
    """The last decision took a tool away: without it the approval before it would hold again."""
    execute(site, ("DELETE FROM pin WHERE seq = (SELECT max(seq) FROM pin)",))


def drop_the_block_and_set_the_head_back(site):
    execute(
        site,
        ("DELETE FROM pin WHERE seq = (SELECT max(seq) FROM pin)",),
        (
            "UPDATE pin_head SET seq = (SELECT max(seq) FROM pin), mac = (SELECT mac FROM pin ORDER BY seq DESC LIMIT 1)",
        ),
    )


def drop_the_first(site):
    execute(site, ("DELETE FROM pin WHERE seq = 1",))


def drop_the_head(site):
    execute(site, ("DELETE FROM pin_head",))


def forge_an_approval(site):
    """Somebody who can write to the store but has no key."""
    execute(
        site,
        ("INSERT INTO pin SELECT max(seq) + 1, server_key, tool_key, approval_hash, body, randomblob(32) FROM pin",),
        (
            "UPDATE pin_head SET seq = (SELECT max(seq) FROM pin), mac = (SELECT mac FROM pin ORDER BY seq DESC LIMIT 1)",
        ),
    )


def drop_the_key(site):
    for path in (site.directory / "keys").glob("pinning.*"):
        path.unlink()


def other_key(site):
    for path in (site.directory / "keys").glob("pinning.*.key"):
        path.write_text(base64.b64encode(os.urandom(32)).decode() + "\n")


TAMPERING = [
    edit_a_row,
    make_a_row_text,
    swap_the_hash,
    drop_the_block,
    drop_the_block_and_set_the_head_back,
    drop_the_first,
    drop_the_head,
    forge_an_approval,
    drop_the_key,
    other_key,
]
# A wrapped server reads the same approvals with the same code: it is tried with what differs most.
WRAPPED_TOO = (edit_a_row, drop_the_block_and_set_the_head_back, drop_the_key)


def settle(site):
    """On both servers, reviewed together, `read` approved, and `bad` approved first and blocked then."""
    visitors = {}
    for name in ("web", "pipe"):
        site[name].fresh(tool("read"), tool("bad"))
        visitors[name] = site.visit(Way("serve", "legacy", name))
        visitors[name].names()
        site.approve(name, "bad", "read")
    site.together()
    for name, visitor in visitors.items():
        visitor.until_open("bad", "read")
        site.block(name, "bad")
        visitor.until_closed("bad", "tool_blocked")
    site.leave()


@pytest.fixture(scope="module")
def _decided(tmp_path_factory):
    """A site whose gateway has stopped after all was decided, and its store and keys as they were then."""
    with pinned_site(tmp_path_factory.mktemp("decided")) as site:
        settle(site)
        site.gateway.stop()
        kept = tmp_path_factory.mktemp("kept") / "as-it-was"
        kept.mkdir()
        for path in (*site.directory.glob("callgate.db*"), site.directory / "keys"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, kept / path.name)
        yield site, kept


@pytest.fixture
def decided(_decided):
    """Puts the store and the keys back, and gives the site; no gateway runs."""

    def put_back():
        site, kept = _decided
        for path in (*site.directory.glob("callgate.db*"), site.directory / "keys"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(kept, site.directory, dirs_exist_ok=True)
        return site

    return put_back


@contextlib.contextmanager
def running(site, config=None):
    """Another gateway runs here meanwhile, on another configuration if that is given."""
    before = site.gateway
    site.gateway = Gateway(config or before.config)
    try:
        yield
    finally:
        site.leave()
        site.gateway.stop()
        site.gateway = before


@requirement("TP-058", "TP-060", "TP-073")
@rows("tamper", TAMPERING)
def test_no_tool_is_callable_under_a_store_that_was_tampered_with(decided, tamper):
    site = decided()
    calls = {name: site[name].called for name in site.servers}
    tamper(site)
    assert site.command("tools", "verify", status=1).strip()
    for way in WRAPPED if tamper in WRAPPED_TOO else ():
        assert_closed(site, way)
        site.leave()
        end(Place(str(site.gateway.config)))
    with contextlib.suppress(AssertionError):
        # A gateway that does not start at all lets nothing through either.
        site.gateway = Gateway(site.gateway.config)
    if site.gateway.process.returncode is None:
        for way in SERVED:
            assert_closed(site, way)
        site.leave()
        site.gateway.stop()
    assert {name: site[name].called for name in site.servers} == calls


def assert_closed(site, way):
    try:
        visitor = site.visit(way)
    except (AssertionError, OSError):
        return
    reasons = {visitor.reason("read"), visitor.reason("bad")}
    assert reasons <= {"pin_tampered", "store_unavailable", "check_failed"}, reasons
    answer = visitor.answer("tools/list")
    if "result" in answer:
        names = [entry["name"] for entry in answer["result"]["tools"]]
        assert "read" not in names
        assert "bad" not in names
    visitor.close()
    site.visitors.remove(visitor)


@requirement("TP-060")
def test_the_command_names_the_row_that_was_edited(decided):
    site = decided()
    assert json.loads(site.command("tools", "verify", "--json"))["ok"] is True
    execute(site, ("UPDATE pin SET body = CAST(body || x'00' AS BLOB) WHERE seq = 3",))
    said = json.loads(site.command("tools", "verify", "--json", status=1).partition("}")[0] + "}")
    assert (said["ok"], said["decision"]) == (False, 3)
    assert site.command("tools", "approve", "--server", "web", "--tool", "read", "--hash", "0" * 64, status=1)


@requirement("TP-060")
@rows("tamper", [edit_a_row, drop_the_block_and_set_the_head_back, drop_the_head])
def test_a_running_gateway_never_takes_tampered_approvals_for_good_ones(decided, tamper):
    """It may go on with what it verified before; what was blocked stays blocked, and no later decision opens more."""
    site = decided()
    with running(site):
        visitor = site.visit(Way("serve", "legacy", "web"))
        before = site["web"].called.count("bad")
        tamper(site)
        for _ in range(10):
            assert visitor.reason("bad") in ("tool_blocked", "pin_tampered", "store_unavailable")
        assert "bad" not in visitor.names()
        site["web"].add(tool("late"))
        assert visitor.reason("late") in ("tool_not_approved", "pin_tampered", "store_unavailable")
        assert site["web"].called.count("bad") == before
        site["web"].be(tools=[tool("read"), tool("bad")])


@requirement("TP-058", "TP-073")
@rows("way", SERVED, ids=[way.text for way in SERVED])
def test_a_store_that_cannot_be_read_leaves_no_tool_callable(decided, way):
    site = decided()
    whole = site.gateway.config.read_text()
    impatient = site.gateway.config.with_name("impatient.toml")
    impatient.write_text(re.sub("busy_seconds = .*", "busy_seconds = 0.3", whole))
    assert impatient.read_text() != whole
    with running(site, impatient):
        visitor = site.visit(way)
        visitor.until_open("read")
        with contextlib.closing(sqlite3.connect(site.gateway.store, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            before = site.server(way).called
            for _ in range(3):
                assert visitor.reason("read") in ("store_unavailable", "audit_unavailable")
            assert site.server(way).called == before
            other.execute("ROLLBACK")
        visitor.until_open("read")
        for name in ("callgate.db", "callgate.db-wal", "callgate.db-shm"):
            (site.directory / name).unlink(missing_ok=True)
        until(lambda: visitor.reason("read") in ("store_unavailable", "audit_unavailable"), "a refusal")
        before = site.server(way).called
        for _ in range(3):
            assert visitor.reason("read") in ("store_unavailable", "audit_unavailable")
        assert site.server(way).called == before


SCHEMAS = {
    "no such number": '{"maximum":1e999}',
    "beyond 2^53": '{"maximum":9007199254740993}',
    "half a character": '{"title":"\\ud800"}',
    "too deep": "[" * 200 + "]" * 200,
}


@requirement("TP-073")
@over_ways(SERVED)
def test_a_definition_that_cannot_be_hashed_is_refused(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")

    @rows("schema", SCHEMAS.values(), ids=SCHEMAS)
    def each(schema):
        entry = '{"name":"read","description":' + json.dumps(tool("read")["description"])
        whole = entry + ',"inputSchema":{"type":"object","properties":{"id":' + schema + "}}}"
        result = '{"resultType":"complete","_meta":"$META","tools":[' + whole + "]}"
        server.be(answers={"tools/list": ['{"jsonrpc":"2.0","id":"$ID","result":' + result + "}"]})
        before = server.called
        assert visitor.reason("read") in ("tool_unfit", "toolset_unverified", "upstream_garbage")
        assert server.called == before
        answer = visitor.answer("tools/list")
        assert "read" not in json.dumps(answer.get("result", {}).get("tools", []))

    each()
