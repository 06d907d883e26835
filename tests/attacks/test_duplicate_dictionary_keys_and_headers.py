"""Say something twice, so that the reader who checks and the reader who acts take different ones; or fold and respell it."""

from callgate.agents.verifying import content_digest
from support.registry import requirement
from support.signed_requests import (
    AGENT,
    BODY,
    Found,
    adding,
    change,
    public,
    refusal,
    replacing,
    request,
    sign,
    verify,
)
from support.table import rows


@rows("separator", [b", ", b",", b" ,\t", None])
@rows("order", [1, -1])
@requirement("WB-058", "WB-070")
async def test_a_label_twice_in_one_header(separator, order):
    good, bad = sign(request()), sign(request(), which=1, nonce="2")
    for name, reason in (("signature-input", "signature_input_malformed"), ("signature", "signature_malformed")):
        values = [dict(one.headers)[name.encode()] for one in (good, bad)][::order]
        if separator is None:
            # On two lines, which is the same header.
            kept = tuple(pair for pair in good.headers if pair[0] != name.encode())
            signed = change(good, headers=kept + tuple((name.encode(), value) for value in values))
        else:
            signed = replacing(good, name, lambda _, values=values: separator.join(values))
        assert await refusal(signed) == (400, reason)


@rows("name", ["keyid", "created", "expires", "tag", "nonce", "alg"])
@requirement("WB-058")
async def test_a_parameter_twice(name):
    value = {"created": "1", "expires": "9999999999"}.get(name, '"x"')
    signed = replacing(sign(request()), "signature-input", lambda text: text + f";{name}={value}".encode())
    assert await refusal(signed) == (400, "signature_input_malformed")


@requirement("WB-058")
async def test_a_component_twice_or_its_parameter_twice():
    for covered in (
        '"@authority" "@authority"',
        '"@authority" "x";sf;key="a" "x";key="a";sf',
        '"@authority" "x";key="a";key="b"',
    ):
        text = f"sig1=({covered})".encode()
        signed = replacing(sign(request()), "signature-input", lambda old, text=text: text + old[old.index(b")") + 1 :])
        assert await refusal(signed) == (400, "signature_input_malformed")


async def test_an_agent_twice():
    header = f'sig1="{AGENT}", sig1="https://thief.example"'
    found = Found(public())
    for covered in ('"signature-agent"', '"signature-agent";sf'):
        base = sign(adding(request(), {"signature-agent": header}), '"@authority"')
        signed = replacing(
            base,
            "signature-input",
            lambda text, covered=covered: text.replace(b'"@authority"', f'"@authority" {covered}'.encode()),
        )
        assert await refusal(signed, lookup=found) == (400, "signature_input_malformed")
    assert found.asked == []


@requirement("WB-074")
async def test_a_digest_twice():
    twice = f"{content_digest(b'another')}, {content_digest(BODY)}"
    for value in (twice, ", ".join(reversed(twice.split(", ")))):
        signed = sign(adding(request(), {"content-digest": value}), '"@authority" "content-digest"')
        assert await refusal(signed) == (401, "content_digest_invalid")


async def test_a_covered_header_sent_once_more():
    signed = sign(adding(request(), {"x-amount": "10"}), '"@authority" "x-amount"')
    assert await verify(signed)
    for at in (0, len(signed.headers)):
        for name in (b"x-amount", b"X-Amount"):
            more = (*signed.headers[:at], (name, b"9999"), *signed.headers[at:])
            assert await refusal(change(signed, headers=more)) == (401, "signature_invalid")


async def test_lines_that_join_to_what_was_signed_are_told_apart_by_bs():
    two = adding(request(), [("x-list", "a, b"), ("x-list", "c")])
    other = adding(request(), [("x-list", "a"), ("x-list", "b, c")])
    headers = sign(two, '"@authority" "x-list";bs').headers[-2:]
    assert await verify(change(two, headers=two.headers + headers))
    assert await refusal(change(other, headers=other.headers + headers)) == (401, "signature_invalid")


async def test_folding_and_case_make_no_other_header():
    signed = sign(adding(request(), {"x-note": "one two"}), '"@authority" "x-note"')
    respelt = tuple(
        (b"X-NOTE", b"  one\r\n \t two\t") if name == b"x-note" else (name.title(), value)
        for name, value in signed.headers
    )
    assert await verify(change(signed, headers=respelt))


@rows("raw", [b"one\ntwo", b"one\r\ntwo", b"one\rtwo", b'x\n"@authority": gate.example'])
async def test_a_line_end_in_a_value_adds_no_line_to_what_was_signed(raw):
    signed = sign(adding(request(), {"x-note": "one"}), '"@authority" "x-note"')
    hostile = change(signed, headers=tuple((n, raw if n == b"x-note" else v) for n, v in signed.headers))
    assert await refusal(hostile) == (400, "unsupported_covered_field")


@requirement("WB-057")
async def test_a_header_name_almost_spelt():
    signed = sign(request())
    for name in (b"signature ", b"signature_input", b"x-signature"):
        other = tuple((name if one == b"signature" else one, value) for one, value in signed.headers)
        assert await refusal(change(signed, headers=other)) == (401, "missing_signature_headers")
