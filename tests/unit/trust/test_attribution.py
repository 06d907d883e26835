"""Where data came from, in forms that mean something to others."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.trust.propagation import (
    MORE,
    is_attribution,
    minimised,
    of_file,
    of_tool,
    of_web,
    origin,
    taken,
    united,
)
from support.registry import requirement
from support.table import rows


@requirement("TA-009")
@rows(
    "text",
    [
        "mcp://server-name.domain/path/to/resource",
        "https://api.example.com/endpoint",
        "local://WORKSTATION.corp.acme.com/path/file",
        "local:anonymous/path/file",
        "urn:org:acme:hr:salaries",
    ],
)
def test_the_documented_forms(text):
    assert is_attribution(text)
    assert taken(text, "s", "t") == text


@requirement("TA-009", "TA-010")
@rows(
    "text",
    ["file:///etc/passwd", "file:x", "http://x.example/", "ftp://x", "some page", "", "data:text/plain,x", "https://"],
)
def test_no_other_form(text):
    assert not is_attribution(text)
    assert is_attribution(taken(text, "s", "t"))


@requirement("TA-010")
def test_a_file_says_whose_it_is_or_that_nobody_knows():
    assert of_file("/home/ann/a b.txt") == "local:anonymous/home/ann/a%20b.txt"
    assert of_file("C:\\x\\y.txt", "PC7.corp.example") == "local://PC7.corp.example/C:/x/y.txt"
    assert taken("file:///etc/passwd", "s", "t") == "local:anonymous/etc/passwd"
    assert taken("FILE://localhost/etc/passwd", "s", "t") == "local:anonymous/etc/passwd"
    assert taken("file://nas.corp/a", "s", "t") == "local://nas.corp/a"


def test_secrets_in_an_address_are_not_kept():
    assert of_web("https://user:pass@x.example:8443/a%20b?token=1#f") == "https://x.example:8443/a%20b"
    assert taken("https://user:pass@x.example/a?token=1", "s", "t") == "https://x.example/a"
    assert "pass" not in taken("http://user:pass@x.example/a?token=1", "s", "t")
    assert "token" not in taken("http://user:pass@x.example/a?token=1", "s", "t")


def test_what_a_server_says_in_a_form_of_its_own_stays_with_its_name():
    assert taken("http://x.example/a", "web", "fetch") == "mcp://web/fetch?source=http%3A%2F%2Fx.example%2Fa"
    assert of_tool("files", "read file/é") == "mcp://files/read%20file%2F%C3%A9"


@requirement("TA-071")
@rows(
    ("text", "least"),
    [
        ("mcp://files/hr/salaries.xlsx", "mcp://files"),
        ("mcp://web/fetch?source=http%3A", "mcp://web"),
        ("https://x.example:8443/a/b?c", "https://x.example:8443"),
        ("local://pc.corp/home/ann", "local://pc.corp"),
        ("local:anonymous/home/ann", "local:anonymous"),
        ("urn:org:acme:hr:salaries", "urn:org:acme"),
    ],
)
def test_the_origin_alone(text, least):
    assert origin(text) == least
    assert is_attribution(least)
    assert minimised([text, text]) == (least,)


@requirement("TA-041")
def test_each_source_once_and_bounded():
    assert united(["mcp://a/1", "mcp://b/1"], ["mcp://a/1"]) == ("mcp://a/1", "mcp://b/1")
    many = united([f"mcp://a/{at}" for at in range(300)])
    assert many == ("mcp://a",)
    most = united([f"mcp://a{at}/x" for at in range(300)])
    assert len(most) == 256
    assert most[-1] == MORE
    again = united(most, ["mcp://new/x"])
    assert len(again) <= 256
    assert MORE in again


@given(st.text(max_size=80), st.text(max_size=20), st.text(max_size=20))
def test_whatever_is_said_can_be_handed_on(text, server, tool):
    assert is_attribution(taken(text, server, tool))
    assert is_attribution(origin(taken(text, server, tool)))
    assert len(taken(text * 40, server, tool * 40)) <= 512
