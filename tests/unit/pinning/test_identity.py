"""Which server a command starts, or an address is: the package and its version, the file and its digest, the origin."""

import hashlib
import os
import re
import sys

import pytest

from callgate.pinning.identity import http_identity, library_identity, reported_as, shown, stdio_identity
from callgate.pinning.identity.disk import LocalDisk, account_home, images
from callgate.pinning.listing import ToolListing, observed
from callgate.pinning.review import started_with
from support.registry import requirement
from support.table import rows

DIGEST = "sha256:" + "ab" * 32
COMMIT = "0123456789abcdef0123456789abcdef01234567"

# Some place that packages may come from.
# A made-up place of packages, as users write it with their password, and as it is kept.
PLACE = "https://tools.example.com/made-up/"
LOGIN = "https://u:p@tools.example.com/made-up/"
PINNED = {
    "npx -y @org/pkg@1.2.3": "npm:@org/pkg@1.2.3",
    "npx --yes pkg@1.2.3-rc.1+build": "npm:pkg@1.2.3-rc.1+build",
    "npx -y -- pkg@v1.2.3 --token s3cret": "npm:pkg@1.2.3",
    "npx -p @org/pkg@1.2.3 -- serve --flag": "npm:@org/pkg@1.2.3",
    "npx --package=@org/pkg@1.2.3 serve": "npm:@org/pkg@1.2.3",
    "npx -y alias@npm:@org/pkg@1.2.3": "npm:@org/pkg@1.2.3",
    "npx -p a@1.0.0 -p b@2.0.0 b": "npm:a@1.0.0,b@2.0.0",
    "npx.cmd -y pkg@1.2.3": "npm:pkg@1.2.3",
    "cmd /c npx -y pkg@1.2.3": "npm:pkg@1.2.3",
    "CMD.EXE /d /c npx.cmd -y pkg@1.2.3": "npm:pkg@1.2.3",
    "/usr/local/bin/npx -y pkg@1.2.3": "npm:pkg@1.2.3",
    "npm exec -y -- pkg@1.2.3 arg": "npm:pkg@1.2.3",
    "npm exec --package=pkg@1.2.3 -- bin": "npm:pkg@1.2.3",
    "npm x pkg@1.2.3": "npm:pkg@1.2.3",
    "pnpm dlx pkg@1.2.3": "npm:pkg@1.2.3",
    "pnpm --package=pkg@1.2.3 dlx bin": "npm:pkg@1.2.3",
    "yarn dlx -q pkg@1.2.3": "npm:pkg@1.2.3",
    "bunx pkg@1.2.3": "npm:pkg@1.2.3",
    "bun x pkg@1.2.3": "npm:pkg@1.2.3",
    "deno run -A npm:@org/pkg@1.2.3": "npm:@org/pkg@1.2.3",
    "deno run --allow-net jsr:@org/pkg@1.2.3": "jsr:@org/pkg@1.2.3",
    f"npx -y --registry {LOGIN}?t=1 pkg@1.2.3": f"npm:pkg@1.2.3 from {PLACE}",
    "uvx pkg@1.2": "pypi:pkg@1.2",
    "uvx Some.Pkg_Name==1.2": "pypi:some-pkg-name@1.2",
    "uvx pkg[cli]==1.2": "pypi:pkg@1.2",
    "uvx --from pkg==1.2 serve": "pypi:pkg@1.2",
    "uvx --from=pkg==1.2 serve": "pypi:pkg@1.2",
    "uvx -p 3.12 --with other==9 pkg==1.2 --api-key s3cret": "pypi:pkg@1.2",
    "uvx --python=3.12 pkg@1.2rc1": "pypi:pkg@1.2rc1",
    "uv tool run pkg@1.2": "pypi:pkg@1.2",
    "uv --directory /x tool run --from pkg===1.2 serve": "pypi:pkg@1.2",
    f"uvx --index-url {LOGIN} pkg==1": f"pypi:pkg@1 from {PLACE}",
    f"uvx --from git+https://tok@example.com/o/r@{COMMIT} serve": f"git:https://example.com/o/r@{COMMIT}",
    f"npx -y github:o/r#{COMMIT}": f"git:https://github.com/o/r@{COMMIT}",
    "pipx run pkg==1.2": "pypi:pkg@1.2",
    "pipx run --spec pkg==1.2 serve": "pypi:pkg@1.2",
    f"docker run -i --rm img@{DIGEST}": f"oci:img@{DIGEST}",
    f"docker run -i --rm -e TOKEN=s3cret --env-file f -v /a:/b --name n ghcr.io:443/o/img:1.0@{DIGEST} serve": (
        f"oci:ghcr.io:443/o/img@{DIGEST}"
    ),
    f"docker run -it -p8080:80 -w /w -u 1000 --network=host --entrypoint sh img@{DIGEST}": f"oci:img@{DIGEST}",
    f"docker run -itv /a:/b --mount type=bind,src=a --init img@{DIGEST}": f"oci:img@{DIGEST}",
    f"docker --context remote container run --rm -- img@{DIGEST}": f"oci:img@{DIGEST}",
    f"podman run --replace --tls-verify=false img@{DIGEST}": f"oci:img@{DIGEST}",
    "env -u A B=c TOKEN=s3cret npx -y pkg@1.2.3": "npm:pkg@1.2.3",
    "timeout -s KILL 60 uvx pkg==1.2": "pypi:pkg@1.2",
    "op run --env-file=x -- npx -y pkg@1.2.3": "npm:pkg@1.2.3",
    "go run example.com/o/cmd@v1.2.3": "go:example.com/o/cmd@1.2.3",
}


def unbound(found):
    """The identity without the digest of what stands beside the package or file."""
    return re.sub(r" with sha256:[0-9a-f]{64}", "", found.server_id)


BOUND = {
    *("-p", "--package=@org/pkg@1.2.3", "--package=pkg@1.2.3", "--flag", "arg", "--registry", "-A", "--allow-net"),
    *("--from", "--from=pkg==1.2", "--with", "--python=3.12", "--index-url", "--spec", "-v", "--context", "--replace"),
    *("-p8080:80", "-itv", "-u", "timeout", "op", "--token"),
}


@requirement("TP-026")
@rows("line", PINNED)
def test_a_pinned_command_is_its_package_and_version_and_nothing_that_the_server_says(line):
    found = stdio_identity(line.split(), reported="liar 9.9")
    wanted = PINNED[line]
    assert unbound(found) == wanted
    # What stands beside the package is bound too; started plainly, nothing does.
    assert (found.server_id != wanted) == bool(set(line.split()) & BOUND)
    assert found.chosen
    assert found.warnings == ()
    assert found.reported == "liar 9.9"
    assert "s3cret" not in repr(found)


UNPINNED = {
    "npx -y @org/pkg": ("npm:@org/pkg", "@org/pkg@1.2.3"),
    "npx -y pkg@latest": ("npm:pkg", "pkg@1.2.3"),
    "npx -y pkg@^1.2.3": ("npm:pkg", "pkg@1.2.3"),
    "npx -y pkg@1.2": ("npm:pkg", "pkg@1.2.3"),
    "npx -y pkg@1.x": ("npm:pkg", "pkg@1.2.3"),
    "npx -p a@1.0.0 -p b b": ("npm:a@1.0.0,b", "b@1.2.3"),
    "bunx pkg@next": ("npm:pkg", "pkg@1.2.3"),
    "deno run -A npm:pkg": ("npm:pkg", "pkg@1.2.3"),
    "deno run -A jsr:@org/pkg@1": ("jsr:@org/pkg", "jsr:@org/pkg@1.2.3"),
    "uvx pkg": ("pypi:pkg", "pkg==1.2.3"),
    "uvx pkg@latest": ("pypi:pkg", "pkg==1.2.3"),
    "uvx pkg>=1.2": ("pypi:pkg", "pkg==1.2.3"),
    "uvx pkg==1.*": ("pypi:pkg", "pkg==1.2.3"),
    "uvx --from pkg~=1.2 serve": ("pypi:pkg", "pkg==1.2.3"),
    "uvx --from git+https://example.com/o/r@main serve": ("git:https://example.com/o/r", "40 digits"),
    "pipx run pkg": ("pypi:pkg", "pkg==1.2.3"),
    "docker run -i --rm img": ("oci:img", "img@sha256:"),
    "docker run -i --rm img:1.0": ("oci:img", "img@sha256:"),
    "docker run -i --rm img@sha256:beef": ("oci:img", "img@sha256:"),
    "go run example.com/o/cmd@latest": ("go:example.com/o/cmd", "example.com/o/cmd@v1.2.3"),
}


@requirement("TP-026")
@rows("line", UNPINNED)
def test_an_unpinned_command_is_flagged_says_what_to_write_and_carries_the_reported_version(line):
    lineage, instead = UNPINNED[line]
    found = stdio_identity(line.split(), reported="srv 2.0")
    assert unbound(found) == f"{lineage}@unpinned (srv 2.0)"
    assert found.lineage == lineage
    assert not found.chosen
    (warning,) = found.warnings
    assert instead in warning


def test_the_lineage_is_the_same_in_every_version():
    ids = [stdio_identity(["npx", "-y", f"@org/pkg@{version}"]) for version in ("1.2.3", "1.2.4", "2.0.0", "latest")]
    assert {one.lineage for one in ids} == {"npm:@org/pkg"}
    assert len({one.server_id for one in ids}) == 4


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "server.py"
    path.write_bytes(b"print('one')\n")
    return path


def sha(data):
    return hashlib.sha256(data).hexdigest()


@requirement("TP-026")
@rows(
    ("line", "label"),
    [
        ("python3 {}", "python3"),
        ("/usr/bin/python3.11 -u -X dev {} --token s3cret", "python3.11"),
        ("python.exe {}", "python"),
        ("node --enable-source-maps -r ./hook.js {}", "node"),
        ("deno run -A {}", "deno"),
        ("bun run {}", "bun"),
        ("ruby -I lib {}", "ruby"),
        ("perl {}", "perl"),
        ("php -d a=b {}", "php"),
        ("bash -eu {}", "bash"),
        ("sh {}", "sh"),
        ("java -Xmx1g -jar {} --token s3cret", "java"),
        ("uv run {}", "python"),
        ("uv run --with mcp[cli] mcp run {}:app", "python"),
        ("uv run --python 3.12 python {}", "python"),
        ("env A=b nice -n 5 python3 {}", "python3"),
    ],
)
def test_an_interpreter_is_known_by_the_script_it_runs(script, line, label):
    found = stdio_identity(line.format(script).split(), reported="srv 1.0")
    digest = sha(b"print('one')\n")
    assert unbound(found) == f"{label} file:{script}#sha256:{digest} (srv 1.0)"
    assert found.lineage == f"{label} file:{script}"
    assert not found.chosen
    assert found.warnings == ()
    assert "s3cret" not in repr(found)


@requirement("TP-028", "TP-049")
def test_a_changed_script_is_another_server_of_the_same_lineage(script):
    before = stdio_identity(["python3", str(script)])
    script.write_bytes(b"print('two')\n")
    after = stdio_identity(["python3", str(script)])
    assert before.server_id != after.server_id
    assert before.lineage == after.lineage


def test_a_relative_script_belongs_to_the_directory_it_is_started_in(script):
    found = stdio_identity(["python3", "server.py"], cwd=str(script.parent))
    assert found == stdio_identity(["python3", str(script)])
    found = stdio_identity(["uv", "--directory", str(script.parent), "run", "server.py"])
    assert found.server_id.startswith(f"python file:{script}#sha256:")


def test_a_program_is_found_on_the_path_it_is_started_with(tmp_path):
    program = tmp_path / "bin" / "my-server"
    program.parent.mkdir()
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    found = stdio_identity(["my-server", "--token", "s3cret"], environ_path=str(program.parent))
    assert unbound(found) == f"file:{program}#sha256:{sha(program.read_bytes())}"
    assert "s3cret" not in repr(found)
    missing = stdio_identity(["my-server"], environ_path=str(tmp_path))
    assert missing.server_id == "file:my-server#unreadable"
    assert "was not found" in missing.warnings[0]


def test_a_link_is_followed_for_the_identity_and_kept_for_the_lineage(tmp_path):
    for version in ("v1", "v2"):
        (tmp_path / version).write_bytes(version.encode())
    link = tmp_path / "current"
    link.symlink_to("v1")
    before = stdio_identity([str(link)])
    link.unlink()
    link.symlink_to("v2")
    after = stdio_identity([str(link)])
    assert before.server_id == f"file:{tmp_path}/v1#sha256:{sha(b'v1')}"
    assert after.server_id == f"file:{tmp_path}/v2#sha256:{sha(b'v2')}"
    assert before.lineage == after.lineage == f"file:{link}"


@rows("kind", ["directory", "pipe", "loop"])
def test_what_cannot_be_read_is_said_and_never_raises(tmp_path, kind):
    place = tmp_path / "odd"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("odd")
    found = stdio_identity([str(place)], reported="srv 1.0")
    assert found.server_id == f"file:{place}#unreadable (srv 1.0)"
    assert "could not be read" in found.warnings[0]


def test_a_program_that_may_not_be_read_is_said_to_be_so(tmp_path):
    """Root may read everything, so the disk says it."""
    place = tmp_path / "odd"
    place.write_bytes(b"x")

    class Forbidding(LocalDisk):
        def digest(self, path):
            raise PermissionError(13, "Permission denied", path)

    found = stdio_identity([str(place)], reported="srv 1.0", disk=Forbidding())
    assert found.server_id == f"file:{place}#unreadable (srv 1.0)"
    assert "Permission denied" in found.warnings[0]


@rows(
    "argv",
    [
        [],
        [""],
        ["\0"],
        ["python3"],
        ["python3", "-"],
        ["npx"],
        ["npx", "-p"],
        ["uvx", "--from"],
        ["uv", "pip"],
        ["docker"],
        ["docker", "run"],
        ["docker", "run", "-e"],
        ["docker", "compose", "up"],
        ["bash"],
        ["env"],
        ["cmd"],
        ["env"] * 50,
        ["java", "-jar"],
        ["deno", "run", "https://example.com/x.ts"],
        ["\ud800", "\udfff"],
        ["npx", "\ud800@1.2.3"],
        ["uvx", "==="],
        ["npx", "-y", "http://[bad"],
    ],
)
def test_no_command_is_too_strange(argv):
    found = stdio_identity(argv, reported="srv 1.0")
    assert found.server_id.isascii()
    assert not found.chosen or found.warnings == ()


def test_commands_that_cannot_be_read_are_kept_apart_by_all_of_their_words():
    one = stdio_identity(["docker", "compose", "run", "one"], reported="srv 1.0")
    two = stdio_identity(["docker", "compose", "run", "two"], reported="srv 1.0")
    assert one.server_id != two.server_id
    assert one.warnings


def test_code_on_the_command_line_is_known_by_its_digest_and_warned_about():
    for argv, line in [
        (["sh", "-c", "TOKEN=s3cret exec npx pkg@1.2.3"], "sh text"),
        (["bash", "-lc", "x"], "bash text"),
        (["python3", "-uc", "import x"], "python3 text"),
        (["node", "-e", "1"], "node text"),
        (["npx", "-c", "x"], "npx text"),
    ]:
        found = stdio_identity(argv)
        assert found.server_id.startswith(f"{line}#sha256:")
        assert "s3cret" not in repr(found)
        assert len(found.warnings) == 1
    assert (
        stdio_identity(["sh", "-c", 'x "$1"', "a"]).server_id != stdio_identity(["sh", "-c", 'x "$1"', "b"]).server_id
    )


def test_a_module_cannot_be_told_from_outside_and_belongs_to_its_interpreter_and_directory(tmp_path):
    found = stdio_identity(["python3", "-m", "my_server", "--token", "s3cret"], reported="srv 1.0")
    assert unbound(found) == "python3 module:my_server@unpinned (srv 1.0)"
    assert "python3 -m my_server" in found.warnings[0]
    there = stdio_identity(["python3", "-Im", "my_server"], reported="srv 1.0", cwd="/a b/c")
    assert there.server_id == "python3 module:my_server@unpinned in /a%20b/c (srv 1.0)"
    venv = stdio_identity(["/v/bin/python", "-m", "my_server"], reported="srv 1.0")
    assert unbound(venv) == "python module:my_server@unpinned in /v/bin/python (srv 1.0)"


def test_a_part_of_a_project_belongs_to_the_projects_directory():
    one = stdio_identity(["uv", "--directory", "/a", "run", "serve"], reported="srv 1.0")
    two = stdio_identity(["uv", "run", "--directory=/b", "serve"], reported="srv 1.0")
    assert unbound(one) == "uv project:serve@unpinned in /a (srv 1.0)"
    assert unbound(two) == "uv project:serve@unpinned in /b (srv 1.0)"
    found = stdio_identity(["npm", "--prefix", "/a", "run", "serve"])
    assert unbound(found) == "npm project:run%20serve@unpinned in /a"


@requirement("TP-049")
def test_a_bridge_is_the_server_at_its_other_end():
    one = stdio_identity(
        ["npx", "-y", "mcp-remote@0.1.2", "https://u:p@one.example/mcp?key=s3cret"], reported="srv 1.0"
    )
    two = stdio_identity(["npx", "-y", "mcp-remote@0.1.2", "https://two.example/mcp"], reported="srv 1.0")
    assert one.server_id == "npm:mcp-remote@0.1.2 to https://one.example/mcp (srv 1.0)"
    assert one.lineage != two.lineage
    assert not one.chosen
    assert "s3cret" not in repr(one)


@requirement("TP-027")
def test_an_http_server_is_its_origin_as_whom_it_is_authenticated_and_what_it_reports():
    found = http_identity("https://u:p@MCP.Example.com:443/mcp?token=s3cret#x", reported="srv 1.0")
    assert found.server_id == "https://mcp.example.com/mcp as tls:mcp.example.com (srv 1.0)"
    assert found.lineage == "https://mcp.example.com/mcp"
    assert (found.kind, found.chosen, found.warnings) == ("http", False, ())
    assert "s3cret" not in repr(found)
    others = [
        http_identity("https://other.example.com/mcp", reported="srv 1.0"),
        http_identity("https://mcp.example.com:8443/mcp", reported="srv 1.0"),
        http_identity("https://mcp.example.com/other", reported="srv 1.0"),
        http_identity("http://mcp.example.com/mcp", reported="srv 1.0"),
        http_identity("https://mcp.example.com/mcp", authenticated="spiffe://prod/mail", reported="srv 1.0"),
        http_identity("https://mcp.example.com/mcp", reported="srv 1.1"),
        http_identity("https://mcp.example.com/mcp", reported="other 1.0"),
        http_identity("https://mcp.example.com/mcp"),
    ]
    assert len({found.server_id, *(one.server_id for one in others)}) == 9


def test_an_address_without_tls_is_warned_about_unless_it_is_this_machine():
    assert "https://" in http_identity("http://mcp.example.com/mcp").warnings[0]
    for url in ("http://127.0.0.1:8000/mcp", "http://localhost/mcp", "http://[::1]:80/mcp", "http://a.localhost/"):
        assert http_identity(url).warnings == ()
    assert http_identity("http://mcp.example.com", authenticated="me").warnings == ()
    assert http_identity("http://[::1]:8000").server_id == "http://[::1]:8000/ as unauthenticated"
    assert http_identity("http://[bad").server_id.startswith("http-unreadable#sha256:")


def test_a_library_user_names_the_server():
    assert library_identity("mail").server_id == "library:mail"
    assert library_identity("mail", reported="srv 1.0").server_id == "library:mail (srv 1.0)"
    pinned = library_identity("mail", version="1.2", reported="srv 1.0")
    assert (pinned.server_id, pinned.lineage, pinned.chosen) == ("library:mail@1.2", "library:mail", True)
    assert library_identity("mail@1.2").server_id != pinned.server_id


@requirement("TP-049")
@rows(
    "said",
    ["srv) (admin 1.0", "x\n1.0", "a\u202eb", "%29", "x" * 5000, "\ud800", "srv 1.0) as tls:other", "~sha256:00"],
)
def test_what_a_server_says_cannot_leave_its_brackets(said):
    found = http_identity("https://a.example/", reported=said)
    head, _, rest = found.server_id.partition(" (")
    assert head == "https://a.example/ as tls:a.example"
    assert rest.endswith(")")
    assert "(" not in rest
    assert ")" not in rest[:-1]
    assert found.server_id.isascii()
    assert found.server_id.isprintable()
    assert len(found.server_id) < 400
    assert found.reported.isprintable()
    assert len(found.reported) <= 201


def test_long_names_differ_even_where_they_look_alike():
    ids = {http_identity("https://a.example/", reported="x" * 300 + end).server_id for end in ("1", "2")}
    assert len(ids) == 2


def test_what_a_greeting_says_becomes_one_text():
    assert reported_as("srv", "1.0") == "srv 1.0"
    assert reported_as("a b", "c") != reported_as("a", "b c")
    assert reported_as(None, 3) == ""
    assert reported_as("srv", None) == "srv "
    assert shown(reported_as("srv", None)) == "srv"


def test_the_running_interpreter_is_read_from_the_disk():
    found = stdio_identity([sys.executable, __file__])
    assert f"file:{__file__}#sha256:" in found.server_id


def test_an_upgrade_of_the_launcher_or_a_moved_home_is_the_same_server(tmp_path, monkeypatch):
    places = ["/usr/bin", "/opt/homebrew/bin", f"{account_home()}/.nvm/versions/node/v22.1.0/bin"]
    for place in places:
        assert stdio_identity([f"{place}/npx", "-y", "@org/pkg@1.2.3"]).server_id == "npm:@org/pkg@1.2.3"
    monkeypatch.setattr("callgate.pinning.identity.disk.account_home", lambda: str(tmp_path))
    own = tmp_path / ".local" / "bin" / "npx"
    own.parent.mkdir(parents=True)
    own.write_text("one")
    own.chmod(0o755)
    assert stdio_identity([str(own), "-y", "@org/pkg@1.2.3"]).server_id == "npm:@org/pkg@1.2.3"
    # What anybody can write there is not the user's own, and a link into a project neither.
    own.chmod(0o777)
    found = stdio_identity([str(own), "-y", "@org/pkg@1.2.3"])
    assert found.server_id.startswith("npm:@org/pkg@1.2.3 with sha256:")
    assert str(own) in found.warnings[0]
    own.unlink()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "npx").write_text("one")
    own.symlink_to(tmp_path / "project" / "npx")
    linked = stdio_identity([str(own), "-y", "@org/pkg@1.2.3"])
    assert linked.server_id != "npm:@org/pkg@1.2.3"
    (tmp_path / "project" / "npx").write_text("two")
    assert stdio_identity([str(own), "-y", "@org/pkg@1.2.3"]).server_id != linked.server_id


@requirement("TP-025")
@rows(
    "place, usual",
    [
        (".nvm/versions/node/v22.1.0/bin/npx", True),
        (".nvm/versions/node/v22.1.0/lib/node_modules/npm/bin/npx-cli.js", True),
        (".pyenv/shims/python3", True),
        ("go/bin/npx", True),
        ("n/bin/npx", True),
        ("n/lib/node_modules/npm/bin/npx-cli.js", True),
        ("miniconda3/bin/npx", True),
        ("miniconda3/envs/work/bin/npx", True),
        ("bin/npx", True),
        ("go/src/evil/node_modules/.bin/npx", False),
        ("go/npx", False),
        ("n/evil/npx", False),
        ("miniconda3/evil/npx", False),
        ("bin/evil/node_modules/.bin/npx", False),
        ("bin/evil/node_modules/evil/npx", False),
        (".cargo/registry/src/evil/npx", False),
        (".pyenv/plugins/clone/bin/npx", False),
        ("bin/clone/npx", False),
    ],
)
def test_only_where_programs_are_put_are_places_of_the_users_own(tmp_path, monkeypatch, place, usual):
    monkeypatch.setattr("callgate.pinning.identity.disk.account_home", lambda: str(tmp_path))
    # Version managers are themselves under version control; what is cloned below them, or among programs, is a project.
    for clone in (".nvm", ".pyenv", ".pyenv/plugins/clone", "bin/clone"):
        (tmp_path / clone / ".git").mkdir(parents=True)
    assert LocalDisk().is_usual(str(tmp_path / place)) is usual


def test_variables_that_say_what_holds_anyway_are_no_part_of_it(tmp_path):
    argv, home = ["npx", "-y", "@org/pkg@1.2.3"], account_home()
    harmless = {"HOME": home, "npm_config_cache": f"{home}/.npm", "NODE_PATH": "/usr/lib/node_modules", "NODE_ENV": "x"}
    harmless |= {"API_KEY": "s3cret", "PATH": "/usr/bin:/bin", "npm_config_user_agent": "npm/10"}
    harmless |= {
        "XDG_CACHE_HOME": f"{home}/.cache",
        "GOPATH": f"{home}/go",
        "GIT_AUTHOR_NAME": "Ann",
        "VIRTUAL_ENV": "x",
    }
    harmless |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "/usr/share/code/askpass.sh", "CONDA_PREFIX": "x"}
    harmless |= {"XDG_DATA_DIRS": f"{home}/.local/share/flatpak/exports/share:/usr/local/share/:/usr/share/"}
    harmless |= {"CURL_CA_BUNDLE": "/etc/ssl", "BUN_INSTALL_CACHE_DIR": f"{home}/.bun/install/cache"}
    assert stdio_identity(argv, environ=harmless).server_id == "npm:@org/pkg@1.2.3"
    odd = stdio_identity(argv, environ=harmless | {"npm_config__auth": "s3cret", "NODE_PATH": str(tmp_path)})
    assert [part.shown for part in odd.bound] == [f"NODE_PATH={tmp_path}", "npm_config__auth=***"]
    assert "s3cret" not in repr(odd)


def test_callgates_own_environment_is_activated_in_the_terminal_alone(tmp_path):
    """`. .venv/bin/activate`, `callgate install`, and then a client that knows nothing of it."""
    script = tmp_path / "srv.py"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    other = tmp_path / "bin"
    other.mkdir()
    (other / "python3").symlink_to(sys.executable)

    def identity(argv, folder):
        return stdio_identity(argv, environ={"PATH": f"{folder}:/usr/bin:/bin"}).server_id

    ours = f"{sys.prefix}/bin"
    for argv in (["uvx", "pkg==1.2"], ["pipx", "run", "pkg==1.2"]):
        assert identity(argv, ours) == identity(argv, "/bin") != identity(argv, other)
    # With its packages, another program runs a script or a module.
    for argv in ([str(script)], ["python3", str(script)], ["python3", "-m", "callgate_demo"]):
        assert len({identity(argv, folder) for folder in (ours, other, "/bin")}) == 3


IMAGE = "63 43 0:39 / {} ro,nosuid,nodev,relatime shared:9 - fuse.Cursor-1.AppImage Cursor-1.AppImage ro,user_id={},group_id=0\n"


def test_an_appimage_is_what_this_user_mounted_read_only_by_fuse():
    user = os.geteuid()
    line = IMAGE.format("/tmp/.mount_Cu\\040rsAb", user)
    assert [*images(f"22 27 0:21 / /proc rw - proc proc rw\n{line}")] == ["/tmp/.mount_Cu rsAb"]
    assert [*images(line.replace(" shared:9", ""))] == ["/tmp/.mount_Cu rsAb"]
    others = [
        (f"user_id={user}", f"user_id={user + 1}"),
        ("fuse.Cursor", "tmpfs.Cursor"),
        (" ro,nosuid", " rw,nosuid"),
        (".mount_", "mount_"),
        (" / ", " /usr "),
        ("rsAb", "rsAb/usr"),
    ]
    assert [change for change in others if [*images(line.replace(*change))]] == []


def test_folders_of_a_client_that_is_an_appimage_are_named_anew_at_each_start(tmp_path, monkeypatch):
    """What stands in a list of mounts is written here: few machines that run tests can mount by FUSE."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr("callgate.pinning.identity.disk._MOUNTS", str(mounts))

    def identity(image, **environ):
        known = {"PATH": "/usr/bin:/bin"} | {name: value.format(image) for name, value in environ.items()}
        return stdio_identity(["uvx", "pkg==1.2"], cwd=str(tmp_path), environ=known).server_id

    started = []
    for name in ("Cursorabcdef", "Cursorghijkl"):
        image = tmp_path / f".mount_{name}"
        (image / "usr/bin").mkdir(parents=True)
        (image / "usr/bin/run.sh").write_text("")
        (image / "out").symlink_to(tmp_path)
        mounts.write_text(IMAGE.format(image, os.geteuid()))
        started.append(image)
    old, now = started
    environ = {
        "PATH": "{0}:{0}/usr/sbin:/usr/bin:/bin",
        "XDG_DATA_DIRS": "{0}/usr/share/:/usr/local/share/:/usr/share/",
        "LD_LIBRARY_PATH": "{0}/usr/lib/:{0}/usr/lib64/",
        "QT_PLUGIN_PATH": "{0}/usr/lib/qt4/plugins/",
        "PERLLIB": "{0}/usr/share/perl5/",
    }
    plain = identity(now)
    assert identity(now, **environ) == plain
    # Without a mount there, each is another: it may be anybody's folder.
    assert all(identity(old, **{name: value}) != plain for name, value in environ.items() if name != "PATH")
    # What else is in the list counts, as ever, and so does a file, a way out, and a program that is found there.
    for name, value in {
        "LD_LIBRARY_PATH": "{0}/usr/lib:",
        "PERLLIB": f"{{0}}/usr/lib:{tmp_path}",
        "LD_PRELOAD": "{0}/usr/bin/run.sh",
        "PYTHONPATH": "{0}/out",
        "NODE_PATH": "{0}/../here",
    }.items():
        assert identity(now, **{name: value}) != plain, name
    # Where it counts, it counts as the same in each start.
    mounts.write_text("".join(IMAGE.format(image, os.geteuid()) for image in started))
    assert len({identity(image, LD_LIBRARY_PATH="{0}/usr/lib:") for image in started}) == 1
    (now / "usr/bin/uvx").write_text("")
    (now / "usr/bin/uvx").chmod(0o755)
    assert identity(now, PATH="{0}/usr/bin:/usr/bin") != plain


@requirement("TP-025")
@rows(
    "words, text, another",
    [
        (("servers.json",), "[1]", True),
        (("--config", "a.json"), "[1]", True),
        (("--config=a.json",), "[1]", True),
        (("a.yaml",), "[1]", True),
        (("a.jsonc",), "[1]", True),
        (("plugin.js",), "[1]", True),
        (("mail.json",), '[{"text": "the command: args, \\"script\\""}]', False),
        (("--db", "shop.db"), '{"command": "other"}', False),
        *((("mail.json",), f'{{"a": [{{"{key}" : 1}}]}}', True) for key in ("command", "args", "mcpServers", "script")),
        (("mail.json",), '{"module"/**/: "other"}', True),
        (("--file=mail.json",), r'{"comm\u0061nd": "other"}', True),
        (("mail.json",), " " * 2**21 + '{"command": "other"}', False),
    ],
)
def test_an_edited_file_of_the_command_is_another_server_where_it_can_say_what_runs(script, words, text, another):
    """A file that a server keeps its data in changes all day."""
    folder = script.parent
    file = folder / words[-1].rpartition("=")[2]
    file.write_text("{}")
    argv = ["python3", str(script), *words]
    before = stdio_identity(argv, cwd=str(folder))
    file.write_text(text)
    assert (stdio_identity(argv, cwd=str(folder)).server_id != before.server_id) is another


@rows(("argv", "said"), [(["python3", "srv.py"], True), (["./srv.py"], False), (["npx", "-y", "a@1.0.0"], False)])
def test_what_a_script_loads_from_beside_it_is_said_to_be_unknown(tmp_path, argv, said):
    (tmp_path / "srv.py").write_text("import beside\n")
    identity = stdio_identity(argv, cwd=str(tmp_path))
    seen = observed(identity, ToolListing([]), 0, name="srv").server
    assert any("What that file loads from beside it is not" in fact for fact in started_with(seen)) is said
