"""What the pages name is there: files, links, commands, configuration keys, make targets."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache

import msgspec
import typer.main

from callgate import config
from callgate.cli import build
from callgate.config.loading import peel
from callgate.errors import Reason
from support.pages import ROOT
from support.table import rows

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
ATTACKS = [
    line
    for line in (ROOT / "docs" / "reference" / "attacks.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "`" in line
]
CODE = re.compile(r"`([^`\n]+)`")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def verbs():
    """Every command as its words."""
    top = typer.main.get_command(build([]))
    found = {("callgate",)}
    for name, command in top.commands.items():
        found.add(("callgate", name))
        found |= {("callgate", name, below) for below in getattr(command, "commands", {})}
    return found


def keys():
    """Every configuration key as `section.key`."""
    found = set()
    for field in msgspec.structs.fields(config.Config):
        kind = peel(field.type)[0]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found |= {f"{field.name}.{key}" for key in kind.__struct_fields__}
    return found


def anchors(page):
    """The names that a page's headings have as the target of a link."""
    text = re.sub(r"(?ms)^```.*?^```", "", text_of(page))
    found = (re.sub(r"[`*_]|\[|\]\([^)]*\)", "", head) for head in re.findall(r"(?m)^#+ (.+)$", text))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in found}


@rows("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        place = (ROOT / page).parent / file if file else ROOT / page
        assert place.exists(), target
        if anchor:
            assert anchor in anchors(place.resolve().relative_to(ROOT).as_posix()), target


@rows("page", PAGES)
def test_files_that_are_named_are_there(page):
    for name in re.findall(r"\b((?:tests|src|docs|examples|bench)/[\w./-]*\w/?)", text_of(page)):
        assert (ROOT / name).exists(), name


@rows("page", PAGES)
def test_commands_that_are_named_are_there(page):
    known = verbs()
    groups = {words[:2] for words in known if len(words) == 3}
    for code in CODE.findall(text_of(page)):
        if not code.startswith("callgate "):
            continue
        words = tuple(code.split()[:2])
        assert words in known or words[1].startswith("-"), code
        below = code.split()[2:3]
        if words in groups and below and re.fullmatch(r"[a-z|-]+", below[0]):
            assert all((*words, one) in known for one in below[0].split("|")), code


@rows("page", PAGES)
def test_keys_reasons_and_targets_that_are_named_are_there(page):
    known, sections = keys(), {key.partition(".")[0] for key in keys()}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for code in CODE.findall(text_of(page)):
        if (
            (key := re.match(r"([a-z]+)\.[a-z_]+\b(?!\.)", code))
            and key[1] in sections
            and not code.endswith((".py", ".md"))
            and "(" not in code  # a method, not a key
        ):
            assert key[0] in known, code
        if target := re.fullmatch(r"make ([a-z-]+)", code):
            assert target[1] in targets, code
        if re.fullmatch(r"(blocked_by|store_un|audit_un|upstream_|batch_ref|overload)\w*", code):
            assert code in set(Reason), code


def test_who_has_set_up_is_told_how_to_call_it():
    # What is set up already is not set up again for this.
    words = ["make", "--no-print-directory", "-o", ".venv/.ready", "setup"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) <= 2
    assert ". .venv/bin/activate" in done.stdout
    assert "callgate demo" in done.stdout


def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "images" / "path-of-a-call.svg").exists()
    assert not list((tmp_path / "site").rglob("*.py"))


def test_every_page_is_in_the_menu_once():
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\nvalidation:")[0]
    listed = re.findall(r": (\S+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]


def test_every_picture_is_shown_somewhere():
    words = "".join(text_of(page) for page in PAGES)
    pictures = {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert {name for name in pictures if f"images/{name})" not in words} == set()


def test_the_picture_shows_the_gates_order():
    picture = ET.parse(ROOT / "docs" / "images" / "path-of-a-call.svg").getroot()
    words = " ".join(text.text for text in picture.iter("{http://www.w3.org/2000/svg}text"))
    order = [words.index(name) for name in ("kill switch", "agents", "pinning", "trust", "approval", "Record")]
    assert order == sorted(order)


def test_every_attack_is_on_its_page_and_no_other():
    attacks = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    named = set(re.findall(r"`(\w+)`", "".join(ATTACKS)))
    assert attacks == named


def test_the_readme_can_be_read_at_one_sitting():
    """What it is, a picture, two commands, before anything else; and not too much after it."""
    readme = text_of("README.md")
    start = readme.partition("\n## Start\n")
    assert start[0].count("![") == 1
    assert re.findall(r"```bash\n(.+)\n```", start[2].partition("\n## ")[0]) == [
        "make demo",
        ".venv/bin/callgate install",
    ]
    assert len(readme.encode()) <= 10_000


def test_every_attack_is_told_in_a_row_of_its_own_words():
    rows = [line.split(" | ")[0] for line in ATTACKS]
    assert len(rows) == len(set(rows)) > 50


def test_the_test_command_is_easy_to_find():
    readme = text_of("README.md")
    assert "\n## Test\n" in readme
    assert "make test" in readme.split("\n## Test\n")[1].split("\n## ")[0]
    assert "make test" in re.sub(r"--\S+ ", "", (ROOT / ".ci" / "run").read_text())


def test_the_page_of_the_support_names_every_module():
    folder = ROOT / "tests" / "support"
    page = (folder / "README.md").read_text(encoding="utf-8")
    modules = {one.stem for one in folder.glob("*.py")} | {
        one.name for one in folder.iterdir() if (one / "__init__.py").exists()
    }
    assert {one for one in modules - {"__init__"} if f"`{one}`" not in page} == set()
