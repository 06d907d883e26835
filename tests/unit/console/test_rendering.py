"""What templates put on a page."""

import re
from pathlib import Path

import pytest

import callgate.console
from callgate.console.rendering import Assets, EscapedText, environment, exact, short, statement, when
from support.table import rows

ROOM = Path(callgate.console.__file__).parent
TEMPLATES = sorted(ROOM.glob("templates/*.html"))
SCRIPTS = sorted(ROOM.glob("static/*.js"))

HIDDEN = ["\u202e", "\u200b", "\u2066", "\x00", "\x1b", "\x85", "\u2028", "\ufeff", "\U000e0041", "\u00ad", "\ue000"]


def render(source, **values):
    return environment(Assets()).from_string(source).render(**values)


@rows("char", HIDDEN)
def test_no_template_can_let_a_hidden_character_through(char):
    value = f"a{char}b"
    for source in (
        "{{ v }}",
        '<p title="{{ v }}">',
        "{{ v | upper }}",
        "{{ d.k }}",
        "{% for x in [v] %}{{ x }}{% endfor %}",
    ):
        assert char not in render(source, v=value, d={"k": value})


def test_html_is_escaped():
    value = "<script>alert('x')</script>&\""
    assert "<script>" not in render("{{ v }}", v=value)
    assert '"' not in render("{{ v }}", v=value)
    assert "<" not in render("{{ v }}", v=EscapedText(value))


def test_what_is_shown_already_is_not_escaped_twice():
    assert render("{{ v }}", v=statement("a\\u202eb\nc")) == "a\\u202eb\nc"
    assert statement("x\u202ey\n\\n\u200b") == "x\\u202ey\n\\n\\u200b"


def test_canonical_json_keeps_its_own_escapes():
    assert exact('{"a":"\\n\\\\ \u202e"}'.encode()) == '{"a":"\\n\\\\ \\u202e"}'
    assert exact(b'{"a":"\xff"}') == '{"a":"\\xff"}'


def test_a_missing_value_is_an_error():
    with pytest.raises(Exception, match="undefined"):
        render("{{ nothing }}")


def test_times_and_hashes():
    assert when(1_762_000_000_000) == "1 Nov 2025, 12:26 UTC"
    assert short("sha256:" + "ab" * 32) == "sha256:" + "ab" * 6
    assert short("v1.2") == "v1.2"


# Addresses that code of ours makes, each beginning with a slash.
OURS = ("{{ path }}", "{{ path_of(", "{{ address(page ", "{{ asked.address(")


@rows("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_nothing_inline_and_nothing_from_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'\sstyle\s*=|<style|\son[a-z]+="|javascript:', text)
    assert all(' src="{{ asset(' in tag for tag in re.findall(r"<script[^>]*>", text))
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', text)
    assert all(address.startswith(("/", "#", "{{ asset(", "{{ origin }}{{ path }}", *OURS)) for address in addresses)
    assert not [address for address in addresses if address.startswith("//")]
    assert "| safe" not in text or path.name == "parts.html"


@rows("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_write_no_html_and_load_nothing_from_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://", text
    )
    assert not re.search(r"sessionStorage|document\.cookie", text)
    # Several pages of one browser tell of one call once: which ones were told is all that is kept.
    assert "localStorage" not in text or path.name == "live.js"
    assert all(source.startswith("./") for source in re.findall(r'from "([^"]+)"', text))


def test_every_address_in_the_scripts_is_one_of_the_console():
    pages = (path.read_text(encoding="utf-8") for path in sorted(ROOM.glob("pages/*.py")))
    known = {address for text in pages for address in re.findall(r'(?:Route\(|change\(context,)\s*"(/[^"]*)"', text)}
    signed = {"/tools/approve", "/tools/reviewed-together", "/switch/off", "/people/invite"}

    def used(names):
        found = (re.findall(rf'\b(?:{names})\("(/[^"]*)"', path.read_text(encoding="utf-8")) for path in SCRIPTS)
        return {address for addresses in found for address in addresses}

    assert used("post|get|assign|replace") <= known
    assert len(used("post|get|assign|replace")) > 8
    # What lasts goes with a signature; a plain post of it would be refused.
    assert signed <= used("signedPost")
    assert not signed & used("post")
