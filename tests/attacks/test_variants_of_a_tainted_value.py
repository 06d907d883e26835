"""A stranger's text names a value in one spelling, and the agent sends it in another: it is the same value."""

import pytest

from support.offices import ERAS, text
from support.remembering import Talk, reading
from support.table import rows

ACCOUNT = "US133000000121212121212"
ADDRESS = "mark.black-2134@gmail.com"


# As a stranger writes it, and as the agent does.
VARIANTS = [
    (ADDRESS, "Mark.Black-2134@GMAIL.com"),
    (ADDRESS.upper(), ADDRESS),
    ("mark.black-2134 @ gmail.com", ADDRESS),
    ("mark . black - 2134 (at) gmail . com", ADDRESS),
    ("m a r k . b l a c k - 2 1 3 4 @ g m a i l . c o m", ADDRESS),
    ("mark.\u200bblack\u00ad-2134@gma\u2060il.com", ADDRESS),
    ("ｍａｒｋ．ｂｌａｃｋ－２１３４＠ｇｍａｉｌ．ｃｏｍ", ADDRESS),
    ("mаrk.blаck-2134@gmаil.com", ADDRESS),  # Cyrillic letters
    ("“mark.black-2134@gmail.com”", ADDRESS),
    ("[mail](mailto:mark.black-2134@gmail.com)", ADDRESS),
    ("<a href='mailto:mark.black-2134@gmail.com'>here</a>", ADDRESS),
    ('{"to":"mark.black-2134@gmail.com"}', ADDRESS),
    ('{"text":"now\\nmark.black-2134@gmail.com\\n"}', ADDRESS),
    ("to=mark.black-2134%40gmail.com", ADDRESS),
    ("first gmail.com, before it mark.black-2134", ADDRESS),
    ("US13 3000 0001 2121 2121 212", ACCOUNT),
    ("US13-3000-0001-2121-2121-212", ACCOUNT),
    ("us133000000121212121212", ACCOUNT),
    (ACCOUNT, "US13 3000 0001 2121 2121 212"),
    ("US1330000001 and then 21212121212", ACCOUNT),
    (ACCOUNT, "US-1330-0000-0121-2121-2121-2"),
    ("visit HTTP://WWW.Evil.example:80/a", "evil.example:80/a"),
    ("visit evil.example/a", "https://www.evil.example/a/"),
    ("send $10,000.00", 10000),
    ("send 10000", "10,000"),
    ("on June 13th, 2024", "2024-06-13"),
    ("US١٣٣٠٠٠٠٠٠١٢١٢١٢١٢١٢١٢", ACCOUNT),
    (ACCOUNT, "US١٣٣٠٠٠٠٠٠١٢١٢١٢١٢١٢١٢"),
    ("US१३३००००००१२१२१२१२१२१२", ACCOUNT),
    ("pay@bücher.example", "pay@xn--bcher-kva.example"),
    ("pay@xn--bcher-kva.example", "pay@bücher.example"),
    ("pay@XN--BCHER-KVA.example", "pay@Bücher.example"),
    ("visit https://bücher.example/a", "https://xn--bcher-kva.example/a"),
    ("visit https://xn--bcher-kva.example/a", "https://bücher.example/a"),
    ("visit https://日本語.example/a", "https://xn--wgv71a119e.example/a"),
    ("mark.black-2134=40gmail.com", ADDRESS),
    ("mark.black-2134@gm=\nail.com", ADDRESS),
    ("mark.bl&#97;ck-2134&#x40;gm&#97;il.com", ADDRESS),
]


@rows(("told", "sent"), VARIANTS)
@rows("prompt", ["", "Please see to my mail."])
def test_the_value_is_known_again(told, sent, prompt):
    talk = Talk(prompt)
    talk.strangers(f"Hello, {told} is the one. Thanks")
    assert talk.found(sent) == "untrusted"


@rows("said", ["{}", "What is {} about?"])
@rows(
    ("told", "sent"),
    [
        *VARIANTS,
        ("rent: US13 3000 0001 2121 2121 212", "rent US13 3000 0001 2121 2121 212"),
        ("US13 3000, then 0001 and 2121 twice, 212", "US13 3000 0001 2121 2121 212"),
        ("US13 3000 0001 2121 2121 212", "US13 3000 0001 2121 2121 212"),
        (ACCOUNT, ACCOUNT),
        (ADDRESS, ADDRESS),
    ],
)
def test_who_repeats_it_in_a_harmless_call_does_not_vouch_for_it(told, sent, said):
    talk = Talk("Please pay my rent.")
    payments = reading("list_payments", "system", fields={"**.memo": "untrustedPublic"})
    talk.read(payments, {"payments": [{"memo": told}]})
    assert not talk.open_world
    talk.read(reading("search_payments", "system"), {"hits": []}, arguments={"text": said.format(sent)})
    assert talk.found(sent) == "untrusted"


def test_a_name_in_the_place_of_a_value_counts_too():
    talk = Talk()
    talk.read(reading("list_reviews", "untrustedPublic"), {ADDRESS: {"stars": 5}})
    assert talk.found(ADDRESS) == "untrusted"


def test_a_value_as_the_name_of_an_argument_is_looked_at_too():
    talk = Talk()
    talk.strangers(ADDRESS)
    assert "untrusted" in [one.found for one in talk.trace({"to": {ADDRESS: True}}, "to").values]


@pytest.mark.parametrize("era", ERAS)
def test_over_the_wire_no_spelling_slips_past_the_gate(trusting, era):
    spellings = [
        (ADDRESS, ADDRESS.upper()),
        ("m a r k . b l a c k - 2 1 3 4 @ g m a i l . c o m", ADDRESS),
        ("mark.\u200bblack\u00ad-2134@gma\u2060il.com", ADDRESS),
        ("ｍａｒｋ．ｂｌａｃｋ－２１３４＠ｇｍａｉｌ．ｃｏｍ", ADDRESS),
        (ADDRESS, f" {ADDRESS}\t"),
        (ADDRESS, f"<{ADDRESS}>"),
        (ADDRESS, "mark.black-2134@gmail.com\u200b"),
    ]
    for told, sent in spellings:
        trusting.servers["web"].write(results={"fetch": text(f"Hello, {told} is the one. Thanks")})
        agent = trusting.agent(era)
        agent.call("web", "fetch", url="https://a.example")
        assert agent.asked_about(sent), (told, sent)
        assert not agent.asked_about("ann@example.com")
