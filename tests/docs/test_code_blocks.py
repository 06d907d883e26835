"""Every code block of our pages works: commands run, Python runs, TOML is a configuration, JSON is JSON."""

import re

import pytest

from support.pages import CHECKED, OTHERS, ROOT, Block, Broken, blocks, opened
from support.postgres import database
from support.table import rows

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
# Commands of theirs are carried out in `make verify`.
LONG = {page for page in PAGES if page.startswith("docs/how-to/")}
NEEDS_POSTGRESQL = "docs/how-to/postgresql.md"


def read(page):
    return blocks(page, (ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.verify] if page in LONG else [])
        for page in PAGES
        if any(b.language in CHECKED for b in read(page))
    ],
)
def test_each_block_of_the_page_works(page, tmp_path, request):
    environ = {}
    if page == NEEDS_POSTGRESQL:
        environ["DATABASE_URL"] = request.getfixturevalue("postgresql")
    with opened(tmp_path, **environ) as sandbox:
        for block in read(page):
            if block.language in CHECKED:
                sandbox.carry_out(block)


def test_the_settings_on_every_page_can_be_read(tmp_path):
    """Of the long pages too, whose commands are carried out elsewhere."""
    assert set(PAGES) > LONG
    with opened(tmp_path) as sandbox:
        for page in LONG:
            for block in read(page):
                if block.language in ("toml", "json"):
                    sandbox.carry_out(block)


@pytest.fixture
def postgresql():
    with database() as url:
        yield url


def test_every_block_says_what_it_is():
    unknown = [b.place for page in PAGES for b in read(page) if b.language not in CHECKED + OTHERS]
    assert unknown == []


def test_few_blocks_are_left_out_and_each_says_why():
    left_out = [block for page in PAGES for block in read(page) if block.not_run]
    run = [block for page in PAGES for block in read(page) if block.language in CHECKED and not block.not_run]
    assert all(len(block.not_run) > 10 for block in left_out)
    assert len(left_out) * 4 < len(run)


def test_a_comment_that_is_nearly_right_is_not_taken_for_none():
    """A misspelt comment would run what must not be run, or the other way round."""
    for page in PAGES:
        for comment in re.findall(r"<!--.*?-->", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
            assert re.fullmatch(r"<!-- (not run: .+|file: \S+|background|Made by .+) -->", comment), (page, comment)


# -- the checker itself ----------------------------------------------------------------------------------------


@rows(
    ("language", "text"),
    [
        ("bash", "false\ntrue\n"),
        ("bash", "callgate no-such-verb\n"),
        ("console", "$ echo one\ntwo\n"),
        ("console", "$ printf 'a\\nb\\n'\na\n"),
        ("python", "import callgate.no_such_module\n"),
        ("python", "import warnings; warnings.warn('old', DeprecationWarning)\n"),
        ("toml", "[gatevay]\n"),
        ("toml", "[store\n"),
        ("json", "{'a': 1}\n"),
    ],
)
def test_a_block_that_does_not_work_is_found(tmp_path, language, text):
    with opened(tmp_path) as sandbox, pytest.raises(Broken, match=r"page\.md:3: "):
        sandbox.carry_out(Block("page.md", 3, language, text))


@rows(
    ("language", "text"),
    [
        ("bash", "callgate --version\n"),
        ("console", "$ echo one two\none …\n$ true\n"),
        ("python", "from callgate.gate import Gate\n"),
        ("toml", '[servers.a]\nurl = "https://h/mcp"\nheaders = { Authorization = "Bearer ${TOKEN}" }\n'),
        ("json", '{"a": 1}\n'),
    ],
)
def test_a_block_that_works_passes(tmp_path, language, text):
    with opened(tmp_path) as sandbox:
        sandbox.carry_out(Block("page.md", 3, language, text))


def test_what_runs_in_the_background_has_to_end_well(tmp_path):
    block = Block("page.md", 1, "bash", "sh -c 'echo http://127.0.0.1:1; exit 3'\n", background=True)
    with pytest.raises(Broken, match="ended with 3"), opened(tmp_path) as sandbox:
        sandbox.carry_out(block)


def test_blocks_are_found_with_their_comments():
    text = """
<!-- not run: because of this -->
```bash
one
```
1. a list

   <!-- file: a.toml -->

   ```toml
   [x]
   ```
<!-- background -->
```bash
three
```
```text
```
"""
    found = blocks("p", text)
    assert [(b.line, b.language, b.text) for b in found] == [
        (3, "bash", "one\n"),
        (10, "toml", "[x]\n"),
        (14, "bash", "three\n"),
        (17, "text", "\n"),
    ]
    assert (found[0].not_run, found[1].file, found[2].background) == ("because of this", "a.toml", True)
    with pytest.raises(Broken, match="p:1: the block is not closed"):
        blocks("p", "```bash\n")
