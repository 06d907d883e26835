"""The rooms stay apart: who may import whom, read from the source without running it."""

import ast
from pathlib import Path

from support.table import rows

SOURCE = Path(__file__).resolve().parents[2] / "src" / "callgate"

ROOMS = {"agents", "pinning", "trust", "approval", "audit"}
GROUND = {"errors", "jsonrpc", "canonical", "protocol", "caching", "places", "code_variables", "files", "ed25519"}
# What a stage of a room is made of: the gate's words, and those of the pipeline around it.
WORDS = GROUND | {"gate", "pipeline", "inspection"}
HOUSE = WORDS | ROOMS | {"_version", "keyring", "config", "telemetry", "store"}

# What each part of the package may import beside itself. A part that is not here may import nothing of ours.
MAY_IMPORT = {
    "_version": set(),
    "errors": set(),
    "jsonrpc": {"errors", "canonical"},
    "canonical": {"errors"},
    # what texts say, for whoever asks: it knows nothing of the gate or of any room
    "inspection": set(),
    "protocol": set(),
    "caching": set(),
    "ed25519": set(),
    "places": {"errors"},
    "code_variables": set(),
    "gate": GROUND,
    "pipeline": GROUND | {"gate"},
    **dict.fromkeys(ROOMS, WORDS),
    # bytes in and out, no policy
    "transport": GROUND | {"gate", "pipeline", "config", "telemetry", "local"},
    "keyring": {"errors", "files"},
    "files": set(),
    # `python -m callgate.demo`, which starts a server of examples/demo
    "demo": set(),
    # what a client's hook runs, which has no time to load more
    "prompts": {"local"},
    # what each wrapped server runs, which is to be light: how the gateway of a person is found, started and spoken to
    "local": {"_version", "code_variables"},
    # other programs' configuration files, for whoever installs the gate
    "clients": {"errors", "files", "protocol"},
    "config": {"errors", "telemetry", "places", "protocol"},
    "telemetry": {"errors", "config", "_version", "gate", "jsonrpc"},
    # the rooms' store protocols, which the store fulfils
    "store": {"errors", "canonical", "protocol"} | ROOMS,
    # the one place that knows all of them
    "app": HOUSE | {"transport", "prompts", "local"},
    "sdk": HOUSE,
    "console": HOUSE | {"app", "transport"},
    "cli": HOUSE | {"app", "transport", "sdk", "console", "clients", "prompts", "local"},
    "__init__": HOUSE | {"app", "sdk"},
    "__main__": {"cli", "prompts", "local"},
}


def part_of(path: Path, source: Path) -> str:
    """The room or module that a file belongs to."""
    inside = path.relative_to(source)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def modules(tree: ast.AST, package: list[str]):
    """The full names of everything a file imports, with the line: inside functions and for types only as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in {"import_module", "__import__"}:
                yield node.lineno, str(node.args[0].value)


def violations(source: Path) -> list[str]:
    """Each import that crosses a wall, as `file:line: what`."""
    parts = {path.stem for path in source.iterdir() if path.is_dir() or path.suffix == ".py"}
    found = []
    for path in sorted(source.rglob("*.py")):
        part = part_of(path, source)
        allowed = MAY_IMPORT.get(part, set()) | {part}
        package = ["callgate", *path.relative_to(source).parent.parts]
        for line, name in modules(ast.parse(path.read_text(), str(path)), package):
            head, _, rest = name.partition(".")
            if head != "callgate":
                continue
            target = rest.partition(".")[0]
            target = target if target in parts else "__init__"
            if target not in allowed:
                found.append(f"{path.relative_to(source).as_posix()}:{line}: {part} may not import {target}")
    return list(dict.fromkeys(found))


def test_nobody_reaches_into_another_room():
    assert violations(SOURCE) == []


def test_the_servers_and_the_agent_of_the_demo_know_nothing_of_callgate():
    """They stand for somebody else's programs."""
    demo = SOURCE.parents[1] / "examples" / "demo"
    files = [path for path in demo.rglob("*.py") if path.parent.name != "play"]
    assert len(files) > 5
    found = [name for path in files for _, name in modules(ast.parse(path.read_text(), str(path)), ["callgate_demo"])]
    assert [name for name in found if name.partition(".")[0] == "callgate"] == []


def test_every_part_of_the_package_has_its_rule():
    parts = {part_of(path, SOURCE) for path in SOURCE.rglob("*.py")}
    assert parts <= set(MAY_IMPORT)
    assert {"errors", "gate", "config", "telemetry"} <= parts


def test_the_rules_are_those_of_the_design():
    for room in ROOMS:
        assert MAY_IMPORT[room] == GROUND | {"gate", "pipeline", "inspection"}
    for part in ("gate", "pipeline", "transport"):
        assert not MAY_IMPORT[part] & ROOMS
    assert MAY_IMPORT["inspection"] == set()
    assert [part for part, allowed in MAY_IMPORT.items() if "cli" in allowed] == ["__main__"]
    several = {part for part, allowed in MAY_IMPORT.items() if len(allowed & ROOMS) > 1}
    assert several == {"store", "app", "sdk", "console", "cli", "__init__"}


def planted(folder, place, text):
    """What is found in a package of ours with one more file in it."""
    for part in (*MAY_IMPORT, "strange"):
        if (SOURCE / f"{part}.py").exists():
            (folder / f"{part}.py").write_text("")
        else:
            (folder / part).mkdir()
            (folder / part / "__init__.py").write_text("")
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_text(text)
    return violations(folder)


@rows(
    ("place", "text", "target"),
    [
        ("audit/log.py", "import callgate.trust", "trust"),
        ("audit/log.py", "from callgate.trust.labels import Label", "trust"),
        ("audit/log.py", "from callgate import store", "store"),
        ("audit/log.py", "from callgate import Gate", "__init__"),
        ("audit/log.py", "import callgate", "__init__"),
        ("audit/log.py", "from .. import config", "config"),
        ("audit/log.py", "from ..transport.http.app import App", "transport"),
        ("audit/log.py", "def late():\n    from callgate.app.runtime import Runtime", "app"),
        ("audit/log.py", "if TYPE_CHECKING:\n    from callgate.telemetry import logs", "telemetry"),
        ("audit/log.py", "importlib.import_module('callgate.console')", "console"),
        ("audit/__init__.py", "from ..approval import Challenge", "approval"),
        ("trust/deep.py", "from callgate.keyring import Keyring", "keyring"),
        ("inspection/new.py", "from callgate.pinning.model import Pin", "pinning"),
        ("inspection/engine.py", "from callgate.errors import Reason", "errors"),
        ("gate.py", "from callgate.inspection import inspect", "inspection"),
        ("gate.py", "from callgate.store import Store", "store"),
        ("gate.py", "from callgate.agents import Caller", "agents"),
        ("pipeline/dispatcher.py", "from callgate.trust.stage import TrustStage", "trust"),
        ("transport/http/app.py", "from callgate.pinning.stage import PinningStage", "pinning"),
        ("errors.py", "from callgate.jsonrpc import parse", "jsonrpc"),
        ("store/sqlite.py", "from callgate.config import Config", "config"),
        ("store/sqlite.py", "from callgate.app import runtime", "app"),
        ("config/model.py", "from callgate.store import Store", "store"),
        ("transport/http/app.py", "from callgate.cli import main", "cli"),
        ("transport/http/app.py", "from callgate.console import pages", "console"),
        ("console/pages.py", "from callgate.cli.check import check", "cli"),
        ("strange/new.py", "from callgate.errors import Reason", "errors"),
    ],
)
def test_an_import_through_a_wall_is_caught(tmp_path, place, text, target):
    (found,) = planted(tmp_path, place, text)
    assert found.startswith(f"{place}:")
    assert found.endswith(f"may not import {target}")


@rows(
    ("place", "text"),
    [
        (
            "audit/log.py",
            "import json\nimport sqlalchemy\nfrom callgate.errors import Reason\nfrom callgate import canonical",
        ),
        ("audit/log.py", "from . import merkle\nfrom .merkle import Tree\nfrom callgate.audit.merkle import Tree"),
        ("store/sqlite.py", "from callgate.audit import Records"),
        ("trust/deep.py", "from callgate.inspection.scanner import ResultScanner"),
        ("inspection/new.py", "from callgate.inspection.engine import Hit, rule"),
        ("trust/stage.py", "from callgate.gate import Call\nfrom callgate.pipeline.context import RequestContext"),
        ("app/runtime.py", "from callgate.trust import stage\nfrom callgate.transport.http.app import App"),
        ("transport/http/app.py", "from callgate.gate import Gate\nfrom callgate import config, telemetry"),
        ("cli/serve.py", "from callgate.transport.http.app import App\nfrom callgate.cli.common import fail"),
        ("audit/log.py", "import callgate_other\nfrom callgated import x"),
    ],
)
def test_what_the_design_allows_is_let_through(tmp_path, place, text):
    assert planted(tmp_path, place, text) == []
