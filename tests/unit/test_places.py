import tomllib

from hypothesis import given
from hypothesis import strategies as st

from callgate.places import toml_places
from support.table import rows

TEXT = '''\
# a comment = not a key
title = "x"   # line 2
[gateway]
listen = "127.0.0.1:1"
  allowed_hosts = [   # line 5
    "a]", # ] not the end
    'b[',
  ]
limits.depth = 5
"quoted key" = 1
'literal.key' = 2
"esc\\u0061pe\\t" = 3
text = """
[not.a.table]
key = 1 """"
raw = \'\'\'
[nor.this]
\'\'\'
inline = { a = 1, b = { c = "}" } }
[servers . "my.server" . env]
KEY = "# not a comment"
[[list]]
a = 1
[[list]]
a = 2
[list.sub]
b = 3
[[list.deep]]
c = 4
[servers]
last = 1'''

PLACES = [
    (("title",), 2),
    (("gateway",), 3),
    (("gateway", "listen"), 4),
    (("gateway", "allowed_hosts"), 5),
    (("gateway", "allowed_hosts", 1), 5),
    (("gateway", "limits", "depth"), 9),
    (("gateway", "limits"), 9),
    (("gateway", "quoted key"), 10),
    (("gateway", "literal.key"), 11),
    (("gateway", "escape\t"), 12),
    (("gateway", "text"), 13),
    (("gateway", "raw"), 16),
    (("gateway", "inline"), 19),
    (("gateway", "inline", "b", "c"), 19),
    (("servers", "my.server", "env"), 20),
    (("servers", "my.server", "env", "KEY"), 21),
    (("list",), 22),
    (("list", 0, "a"), 23),
    (("list", 1), 24),
    (("list", 1, "a"), 25),
    (("list", 1, "sub", "b"), 27),
    (("list", 1, "deep", 0, "c"), 29),
    (("servers", "last"), 31),
]


def test_the_text_is_valid_toml():
    tomllib.loads(TEXT)


@rows(("path", "line"), PLACES)
def test_a_key_is_found_on_its_line(path, line):
    assert toml_places("callgate.toml", TEXT).line(path) == line


@rows(("path", "line"), PLACES)
def test_windows_line_ends_change_nothing(path, line):
    text = TEXT.replace("\n", "\r\n")
    tomllib.loads(text)
    assert toml_places("callgate.toml", text).line(path) == line


def test_an_unknown_path_is_found_at_the_nearest_table_around_it():
    assert toml_places("callgate.toml", TEXT).line(("gateway", "absent", "deeper")) == 3


def test_a_path_without_any_table_around_it_has_no_line():
    assert toml_places("callgate.toml", TEXT).line(("absent",)) is None


def test_nothing_inside_strings_is_taken_for_a_table():
    assert toml_places("callgate.toml", TEXT).line(("not",)) is None
    assert toml_places("callgate.toml", TEXT).line(("nor",)) is None


@rows(
    "text",
    ['a = """"two quotes before the end"""""\nb = 1', "a = ''''one''''\nb = 1", 'a = ""\nb = 1', 'a = "\\""\nb = 1'],
)
def test_quotes_beside_the_end_of_a_string(text):
    assert tomllib.loads(text)["b"] == 1
    assert toml_places("callgate.toml", text).line(("b",)) == 2


def test_text_that_is_not_toml_ends_the_search_and_nothing_else():
    assert toml_places("callgate.toml", 'a = 1\nb = "open').line(("b",)) == 2


def test_a_large_file_takes_one_pass():
    text = "\n".join(f'[servers.s{n}]\nurl = "http://x"' for n in range(20_000))
    assert toml_places("callgate.toml", text).line(("servers", "s19999", "url")) == 40_000


KEYS = st.sampled_from(["a", "b-1", '"a.b"', "'x#y'", "c.d", '"\\"q\\"".e', "f . g"])
VALUES = st.sampled_from(
    [
        "1",
        '"# [x]"',
        "'it = [s'",
        "[1, # ]\n  2\n]",
        '"""\n[t]\na = 1\n"""',
        "'''\nb = \"\"\"\n'''",
        '{ k = "}", l = [ { m = 1 } ] }',
        "1979-05-27 # ' \"",
    ]
)


@given(st.lists(st.tuples(st.booleans(), KEYS, VALUES), max_size=12), st.sampled_from(["", "\n", "  # c ' [\n\n"]))
def test_every_key_of_any_document_is_on_the_line_it_was_written(statements, between):
    text, places, table = "", {}, ()
    for number, (opens, key, value) in enumerate(statements):
        line = text.count("\n") + 1
        if opens:
            table = (f"t{number}",)
            text += f"[t{number}]\n"
            line += 1
        # a name of its own for each statement, so that tomllib takes any order of them
        text += f"k{number}.{key} = {value}\n{between}"
        places[(*table, f"k{number}")] = line
    tomllib.loads(text)
    lines = toml_places("callgate.toml", text)
    assert {path: lines.line(path) for path in places} == places
