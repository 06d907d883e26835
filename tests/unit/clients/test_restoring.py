"""Whatever a file looks like, wrapping touches nothing but the entries, and unwrapping gives the same bytes."""

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from callgate.clients import GateCommand, plan_unwrap, plan_wrap
from callgate.clients.jsonc import scan
from callgate.clients.locations import SERVERS
from callgate.clients.servers import Command, read_server

GATE = GateCommand(("/opt/my tools/callgate",), ())

BLANKS = [" ", "\n", "\r\n", "\t", "    ", '// a "b": {\n', "/* , } */", "/**/", "//\r\n"]
TEXT = st.text(max_size=8)
WORD = st.sampled_from(["npx", "/a b/c", "-y", "--", "wrap", "callgate", "${X}", 'q"uote', "back\\slash", "é"])


class Hand:
    """Writes a value as JSONC, with blanks, comments and trailing commas wherever they may stand."""

    def __init__(self, seed):
        self._dice = Random(seed)

    def blank(self):
        return "".join(self._dice.choices(BLANKS, k=self._dice.choice([0, 0, 1, 2])))

    def write(self, value):
        if not isinstance(value, (dict, list)):
            return json.dumps(value, ensure_ascii=self._dice.random() < 0.5)
        parts = [
            f"{self.write(part[0])}{self.blank()}:{self.blank()}{self.write(part[1])}"
            if isinstance(value, dict)
            else self.write(part)
            for part in (value.items() if isinstance(value, dict) else value)
        ]
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        comma = "," if parts and self._dice.random() < 0.3 else ""
        inside = ",".join(f"{self.blank()}{part}{self.blank()}" for part in parts)
        return f"{opened}{inside}{comma}{self.blank()}{closed}"


STARTED = st.fixed_dictionaries(
    {"command": WORD, "args": st.lists(WORD | TEXT, max_size=4)},
    optional={"env": st.dictionaries(TEXT, TEXT, max_size=2), "disabled": st.booleans(), "zz": st.none()},
)
REACHED = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://a.example/mcp", "http://localhost:1/mcp", "https://a.example/mcp?k=1", "${U}"])},
    optional={
        "type": st.sampled_from(["http", "streamable-http"]),
        "headers": st.dictionaries(
            st.sampled_from(["Authorization", "X-Key", "x-key", "X.Key"]), st.just("Bearer 1"), min_size=1
        ),
        "timeout": st.integers(),
    },
)
OTHERS = st.sampled_from([None, [], {}, "x", 1, {"command": 1}, {"url": "https://a/sse"}])
SERVERS_OF = st.dictionaries(TEXT, STARTED | REACHED | OTHERS, max_size=4)
FILES = st.builds(
    lambda before, servers, after: {**before, "mcpServers": servers, **after},
    st.dictionaries(st.sampled_from(["theme", "servers", "\x00", "x"]), TEXT | st.lists(TEXT, max_size=2), max_size=2),
    SERVERS_OF,
    st.dictionaries(st.sampled_from(["z", "é", "last"]), st.integers(), max_size=2),
)


@given(FILES, st.integers(0, 2**32), st.booleans())
def test_wrapped_and_unwrapped_is_the_same_to_the_byte(value, seed, mark):
    hand = Hand(seed)
    text = ("\ufeff" if mark else "") + hand.blank() + hand.write(value) + hand.blank()
    plan = plan_wrap(text, "f", SERVERS, GATE)
    done = {finding.entry.pointer: finding for finding in plan.findings if finding.state == "wrap"}
    assert plan.changes == bool(done)
    _only_entries_changed(text, plan.after, set(done))
    # What the hand wrote before is no matter of ours: the generator may write a wrapped entry by itself.
    names = {pointer[-1] for pointer in done}
    hints = {pointer: finding.hint for pointer, finding in done.items() if finding.hint}
    if names:
        assert plan_unwrap(plan.after, "f", SERVERS, names, hints).after == text
    assert not plan_wrap(plan.after, "f", SERVERS, GATE).changes
    plan.hunks()


def _only_entries_changed(before, after, wrapped):
    """Beside the wrapped servers, every key has the same text, in the same order."""

    def rest(text):
        tree = scan(text)
        servers = tree.get("mcpServers").value
        kept = [text[m.value.start : m.value.end] for m in servers.members if ("mcpServers", m.key) not in wrapped]
        outer = [text[m.start : m.value.end] for m in tree.members if m.key != "mcpServers"]
        return kept, outer, [m.key for m in servers.members], text[: servers.start], text[servers.end :]

    assert rest(before) == rest(after)
    for member in scan(after).get("mcpServers").value.members:
        if ("mcpServers", member.key) in wrapped:
            server = read_server(member.value)
            assert isinstance(server, Command)
            assert server.words[:2] == [GATE.program[0], "wrap"]
