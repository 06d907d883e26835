"""A host in the arguments looks like one that the person knows: it has letters of another alphabet in it, or is only the
name of a user in front of the one that is meant."""

import html

import pytest

from support.table import rows

MARK = "data-mixed-host"


async def page_of(console, **arguments):
    person = console.people.get("anna") or await console.sign_in()
    asked = await console.ask(arguments)
    return html.unescape((await console.get(f"/approve/{asked.id}", person)).text)


@rows(
    ("value", "odd"),
    [
        ("https://p\u0430ypal.com/login", "cyrillic small letter a"),
        ("ops@g\u03bfogle.com", "greek small letter omicron"),
        # A whole label of another alphabet, under a name that everybody has.
        ("\u0430\u0440\u0440\u04cf\u0435.com", "cyrillic small letter a"),
        # The same in the form in which names travel.
        ("https://xn--pypal-4ve.com/", "cyrillic small letter a"),
        ("x.\u13a0b.example", "cherokee letter a"),
    ],
)
async def test_it_is_marked(console, value, odd):
    page = await page_of(console, to=value)
    assert page.count(MARK) == 1
    assert odd in page


@rows("text", ["x" * 200_000, "x." * 100_000, "\u0430-" * 60_000, "." * 200_000])
async def test_long_texts_are_read_once(console, text):
    """Each would take minutes if it were begun anew at every letter."""
    assert "Arguments" in await page_of(console, to=text)


async def test_in_a_list_among_others_and_in_a_key(console):
    page = await page_of(console, hosts=["a.example", "p\u0430ypal.com"], **{"g\u03bfogle.com": 1})
    assert page.count(MARK) == 2


@pytest.mark.parametrize(
    "value",
    [
        "https://paypal.com",
        "m\u00fcnchen.de",
        "\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444",
        "1.5",
        "a.b",
        "Fu\u00df. Und",
    ],
)
async def test_names_of_one_alphabet_are_not(console, value):
    assert MARK not in await page_of(console, to=value)


@rows(
    ("value", "host"),
    [
        ("https://paypal.com@evil.example/login", "evil.example"),
        ("see HTTPS://www.bank.example:443@evil.example:1 now", "evil.example:1"),
        ("ftp://a.example@b.example@c.example", "c.example"),
        ("https://user@evil.example/", ""),
        ("mail ops@bank.example", ""),
        ("https://bank.example/a@b.example", ""),
        ("https://" + "a." * 100_000, ""),
    ],
)
async def test_a_host_that_is_only_the_name_of_a_user(console, value, host):
    page = await page_of(console, to=value)
    assert (f"leads to {host}. " in page) == bool(host)
    assert page.count("data-behind-user") == bool(host)
