"""Nothing is set on an object from outside: what it needs is given when it is made, or handed to one of its methods.

What counts as outside is exact: an assignment to an attribute of anything but `self`, in a module that has no class
with such an attribute.
"""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "callgate"
# Objects of other libraries, which want to be set up like this.
LIBRARIES = {
    "agents/tokens.py": {"registry.max_header_length"},
    "cli/doctor/servers.py": {"log.level", "log.propagate"},
    "cli/help_texts.py": {"command.epilog"},
    "sdk/authenticators/browser.py": {"server.should_exit"},
    "sdk/connection.py": {"client.message_handler"},
    "sdk/server/__init__.py": {"low.lifespan", "low.streamable_http_app", "manager.asgi_app"},
    "sdk/trust/client.py": {"self._sdk.message_handler"},
    "store/sqlite.py": {"driver.text_factory", "self._here.driver"},
    "telemetry/logs.py": {"record.shown_event", "record.shown_exception", "record.shown_fields"},
    "transport/http/loopback.py": {"self._server.should_exit"},
    "transport/http/server.py": {"self.cycle.keep_alive", "self.cycle.transport"},
    "trust/commands.py": {"reader.commenters", "reader.whitespace", "reader.whitespace_split"},
}
# Numbers that are counted up where something happens.
COUNTERS = {
    "agents/stage.py": {"self._proved.value"},
    "approval/pending.py": {"line.waited"},
    "audit/log.py": {"self._metrics.append_failures.value", "self._metrics.calls.value"},
    "store/memory.py": {"self._writer.lost"},
    "transport/http/app.py": {"self._requests.value", "upstream.busy"},
}
# Still to be changed: this only gets shorter.
LEFT = {
    "agents/directories/lookup.py": {"self.documents.known", "self.published.known"},
    "agents/verifying.py": {"why.data"},
    "app/approval.py": {"learnt.gatings"},
    "app/pinning.py": {"learnt.toolsets", "self.pins.configured"},
    "app/serve.py": {"peers.home"},
    "app/trust.py": {"learnt.learning", "learnt.prompts"},
    "console/app.py": {"approvals.page_origin"},
    "inspection/tool_texts.py": {"other.prose"},
    "pinning/stage.py": {"context.line.held", "visit.line.held"},
    "pinning/toolsets.py": {"line.caller", "listing.compiled"},
    "sdk/pinned/__init__.py": {"self._check.shown"},
    "transport/stdio/session.py": {"self._front.abandoned"},
    "trust/provenance/memory.py": {
        *("found.rows", "left.chain", "left.cut", "left.link", "left.text", "self._met.link", "self._said.cut"),
    },
    "trust/provenance/tracing.py": {"budget.chars"},
    "trust/session_cache.py": {"memory.seq"},
    "trust/stage.py": {
        *("facts.agent", "facts.provenance", "facts.secrets", "facts.steps"),
        *("live.memory.overflowed", "live.overheard"),
    },
}


def own_attributes(tree):
    """The attributes of classes of this module, as far as one can see them."""
    found = set()
    for made in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(made):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
                found.add(node.attr)
        if not any(ast.unparse(base).startswith("Protocol") for base in made.bases):
            found |= {node.target.id for node in made.body if isinstance(node, ast.AnnAssign)}
    return found


def is_own(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def named(node):
    """How the attribute is written, without what stands in square brackets."""
    if isinstance(node, ast.Attribute):
        return f"{named(node.value)}.{node.attr}"
    return named(node.value) if isinstance(node, ast.Subscript) else ast.unparse(node)


def set_from_outside(source):
    """What is set on objects of classes that stand in another module, by module."""
    found = defaultdict(set)
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(), str(path))
        own = own_attributes(tree)
        for node in ast.walk(tree):
            written = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if written and not is_own(node) and node.attr not in own:
                found[path.relative_to(source).as_posix()].add(named(node))
    return found


def test_nothing_is_set_on_an_object_from_outside():
    known = defaultdict(set)
    for table in (LIBRARIES, COUNTERS, LEFT):
        for file, names in table.items():
            known[file] |= names
    found = set_from_outside(SOURCE)
    new = {file: more for file, names in found.items() if (more := names - known[file])}
    assert new == {}, "give it to the constructor, or to a method of the object"
    gone = {file: less for file, names in known.items() if (less := names - found[file])}
    assert gone == {}, "this is not set any more: take it out of the table above"


def test_what_is_set_from_outside_is_found(tmp_path):
    (tmp_path / "a.py").write_text(
        "class Made:\n    size: int = 0\n    def __init__(self): self.name = ''\n"
        "def fine(made):\n    made.size, made.name = 1, 'x'\n"
    )
    (tmp_path / "b.py").write_text("def wire(made):\n    made.name = made.others[1].end = 'y'\n    made.size += 1\n")
    assert set_from_outside(tmp_path) == {"b.py": {"made.name", "made.others.end", "made.size"}}
