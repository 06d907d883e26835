"""What components stand for, with the care that RFC 9421 §2 asks for: case, folding, several lines, encodings."""

import pytest

from callgate.agents.model import Signed
from callgate.agents.verifying import SignedMessage, SignedResponse, components, inputs, signature_base, value
from callgate.errors import Reason, Refused
from support.signed_requests import adding, change, request
from support.table import rows


def read(text, signed):
    (component,) = components(f"({text})")
    return value(component, SignedMessage(signed))


def refused(text, signed):
    with pytest.raises(Refused) as caught:
        read(text, signed)
    return caught.value.reason


@rows(
    ("text", "expected"),
    [
        ('"@method"', "POST"),
        ('"@target-uri"', "https://www.example.com/path?param=value"),
        ('"@authority"', "www.example.com"),
        ('"@scheme"', "https"),
        ('"@request-target"', "/path?param=value"),
        ('"@path"', "/path"),
        ('"@query"', "?param=value"),
        ('"@query-param";name="param"', "value"),
    ],
)
def test_derived_components_of_rfc_9421(text, expected):
    signed = request(authority="www.example.com", path="/path", query="param=value")
    assert read(text, signed) == expected


@rows(
    ("scheme", "authority", "expected"),
    [
        ("https", "WWW.Example.COM", "www.example.com"),
        ("https", "example.com:443", "example.com"),
        ("https", "example.com:80", "example.com:80"),
        ("http", "example.com:80", "example.com"),
        ("HTTPS", "example.com:443", "example.com"),
        ("https", "example.com:8443", "example.com:8443"),
        ("https", "[::1]:443", "[::1]"),
    ],
)
def test_an_authority_is_normalised(scheme, authority, expected):
    signed = request(scheme=scheme, authority=authority)
    assert read('"@authority"', signed) == expected
    assert read('"@target-uri"', signed) == f"{scheme.lower()}://{expected}/mcp"


def test_an_empty_path_and_an_absent_or_empty_query():
    bare = request(path="", query=None)
    assert [read(f'"@{name}"', bare) for name in ("path", "query", "request-target")] == ["/", "?", "/"]
    empty = request(path="/", query="")
    assert [read(f'"@{name}"', empty) for name in ("query", "request-target")] == ["?", "/?"]
    assert read('"@target-uri"', empty).endswith("/?")


def test_percent_encoding_stays_as_it_came():
    signed = request(path="/a%2Fb/%7euser", query="x=%2f")
    assert read('"@path"', signed) == "/a%2Fb/%7euser"
    assert read('"@query"', signed) == "?x=%2f"


QUERY = "var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something&b=&c"


@rows(
    ("name", "expected"),
    [
        ("var", "this%20is%20a%20big%0Amultiline%20value"),
        ("bar", "with%20plus%20whitespace"),
        ("fa%C3%A7ade%22%3A%20", "something"),
        ("b", ""),
        ("c", ""),
    ],
)
def test_query_parameters_of_rfc_9421(name, expected):
    assert read(f'"@query-param";name="{name}"', request(query=QUERY)) == expected


@rows("query", ["a=1&a=2", "a=1&%61=2", "b=1", None, "a=%FF", "a=%C3"])
def test_a_query_parameter_with_two_readings_is_not_covered(query):
    assert refused('"@query-param";name="a"', request(query=query)) is Reason.UNSUPPORTED_COVERED_FIELD


def test_header_lines_of_rfc_9421():
    signed = change(
        request(),
        headers=(
            (b"x-ows-header", b"  Leading and trailing whitespace.   "),
            (b"x-obs-fold-header", b"Obsolete\r\n    line folding.  "),
            (b"Cache-Control", b"max-age=60"),
            (b"cache-control", b"   must-revalidate"),
            (b"example-dict", b"  a=1,    b=2;x=1;y=2,   c=(a   b   c)"),
            (b"x-empty", b""),
        ),
    )
    assert read('"x-ows-header"', signed) == "Leading and trailing whitespace."
    assert read('"x-obs-fold-header"', signed) == "Obsolete line folding."
    assert read('"cache-control"', signed) == "max-age=60, must-revalidate"
    assert read('"example-dict"', signed) == "a=1,    b=2;x=1;y=2,   c=(a   b   c)"
    assert read('"x-empty"', signed) == ""


@rows(("key", "expected"), [("a", "1"), ("d", "?1"), ("b", "2;x=1;y=2"), ("c", "(a b c)"), ("e", "?1;f")])
def test_members_of_a_dictionary_of_rfc_9421(key, expected):
    signed = adding(request(), {"example-dict": "  a=1, b=2;x=1;y=2, c=(a   b    c), d, e;f"})
    assert read(f'"example-dict";key="{key}"', signed) == expected
    assert read(f'"example-dict";sf;key="{key}"', signed) == expected
    assert refused('"example-dict";key="absent"', signed) is Reason.UNSUPPORTED_COVERED_FIELD


def test_a_long_dictionary_is_read_as_a_short_one_is():
    members = ", ".join(f"m{at}={at};p" for at in range(200))
    signed = adding(request(), {"example-dict": members})
    assert [read(f'"example-dict";key="m{at}"', signed) for at in (0, 199)] == ["0;p", "199;p"]
    assert refused('"example-dict";key="m200"', signed) is Reason.UNSUPPORTED_COVERED_FIELD
    twice = adding(signed, {"example-dict": "m0=1"})
    assert refused('"example-dict";key="m1"', twice) is Reason.UNSUPPORTED_COVERED_FIELD
    assert refused('"example-dict";key="a"', adding(request(), {"example-dict": "a=1, " + "x" * 9000})) is (
        Reason.UNSUPPORTED_COVERED_FIELD
    )


def test_strict_serialisation_of_known_structured_fields():
    signed = adding(request(), {"cache-control": "  max-age=60,must-revalidate", "priority": "u=1 ,i"})
    assert read('"cache-control";sf', signed) == "max-age=60, must-revalidate"
    assert read('"priority";sf', signed) == "u=1, i"


def test_binary_wrapped_lines_of_rfc_9421():
    signed = adding(request(), [("example-header", "value, with, lots"), ("example-header", "of, commas")])
    assert read('"example-header";bs', signed) == ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:"
    once = adding(request(), {"example-header": "value, with, lots, of, commas"})
    assert read('"example-header";bs', once) == ":dmFsdWUsIHdpdGgsIGxvdHMsIG9mLCBjb21tYXM=:"
    assert read('"example-header"', once) == read('"example-header"', signed)


@rows("raw", [b"a\nb", b"a\rb", b"a\r\nb", b"a\0b", b"caf\xc3\xa9", b"a\x7f", b"a\r\n\r\n b"])
def test_a_value_that_could_end_a_line_of_the_base_is_not_covered(raw):
    signed = change(request(), headers=((b"x-hostile", raw),))
    assert refused('"x-hostile"', signed) is Reason.UNSUPPORTED_COVERED_FIELD


@rows("part", ["method", "authority", "path", "query", "scheme"])
@rows("raw", ["a\nb", "a b", "é", "a\r", "\x00"])
def test_a_request_line_that_could_end_a_line_of_the_base_is_not_covered(part, raw):
    name = "@query" if part == "query" else f"@{part}"
    assert refused(f'"{name}"', request(**{part: raw})) is Reason.UNSUPPORTED_COVERED_FIELD
    if part != "method":
        assert refused('"@target-uri"', request(**{part: raw})) is Reason.UNSUPPORTED_COVERED_FIELD


def test_a_response_covers_its_request_only_with_req():
    asked = Signed("GET", "https", "dir.example", "/keys", None, ((b"x", b"1"),))
    answer = SignedResponse(200, ((b"x", b"2"),), asked)

    def of(text):
        (component,) = components(f"({text})")
        return value(component, SignedMessage(answer))

    assert [of(text) for text in ('"@status"', '"@authority";req', '"x"', '"x";req')] == [
        "200",
        "dir.example",
        "2",
        "1",
    ]
    for text in ('"@authority"', '"@status";req', '"x";req=?0', '"x";req;tr'):
        with pytest.raises(Refused):
            of(text)


def test_escapes_in_strings_are_kept_as_they_are_signed():
    raw = rb'sig1=("@authority" "@query-param";name="a\"b\\c");tag="x\"y"'
    given = inputs(raw)["sig1"]
    assert given.text == raw.decode()[5:]
    assert given.params == {"tag": 'x"y'}
    assert given.components[1].params == {"name": 'a"b\\c'}


@rows(
    ("spelt", "meant"),
    [
        ('sig1=( "@method"   "@authority" ); created=1;  tag="a"', '("@method" "@authority");created=1;tag="a"'),
        ('sig1=("@method";req=?1);x=?1;y=?0', '("@method";req);x;y=?0'),
        ('  sig1=("a");x=01 ', '("a");x=1'),
        ('sig1=("a");x=-0', '("a");x=0'),
        ('sig1=("a");x=1.50', '("a");x=1.5'),
        ("sig1=();x=:AQ:", "();x=:AQ==:"),
    ],
)
def test_another_spelling_is_signed_as_a_serialiser_spells_it(spelt, meant):
    given = inputs(spelt.encode())["sig1"]
    assert given.text == meant
    assert inputs(f"sig1={meant}".encode())["sig1"] == given


def test_the_base_ends_with_the_parameters_and_no_line_end():
    given = inputs(b'sig1=("@method");tag="a"')["sig1"]
    assert (
        signature_base(given, SignedMessage(request())) == b'"@method": POST\n"@signature-params": ("@method");tag="a"'
    )
