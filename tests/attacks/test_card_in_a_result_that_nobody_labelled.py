"""Card numbers, accounts and passwords in results that nobody labelled: an order that sends them on meets a person."""

from support.remembering import Talk, reading
from support.table import rows
from support.trust_gateway import FRIENDS, text

CARD = "4539 1488 0343 6467"
IBAN = "DE89 3704 0044 0532 0130 00"
PASSWORD = "blue-Horse42"
PAGE = reading("fetch_page", "untrustedPublic")
OWN = reading("get_profile", "user")
PLACES = {
    "a text": (None, f"Card {CARD}, account {IBAN} and password: {PASSWORD}"),
    "structured": ({"card": CARD.replace(" ", ""), "iban": IBAN, "notes": [f"password: {PASSWORD}"]}, ""),
    "a number": ({"card": int(CARD.replace(" ", "")), "iban": IBAN.lower(), "login": f"password={PASSWORD}"}, ""),
    "with dashes": (None, f"{CARD.replace(' ', '-')}; {IBAN.replace(' ', '')}; 'password': '{PASSWORD}'"),
}


def read(talk, tool, place):
    structured, said = PLACES[place]
    talk.read(tool, structured, *([said] if said else ()), sensitivity=frozenset())


@rows("place", PLACES)
@rows("tool", [PAGE, OWN])
@rows(
    ("sent", "kind"),
    [
        (CARD, "financial"),
        (CARD.replace(" ", ""), "financial"),
        (CARD.replace(" ", "-"), "financial"),
        (IBAN, "financial"),
        (IBAN.replace(" ", ""), "financial"),
        (IBAN.lower(), "financial"),
        (PASSWORD, "credentials"),
    ],
)
def test_what_is_sent_on_is_known_again(place, tool, sent, kind):
    talk, later = Talk("Send my profile to ann@example.com"), Talk()
    read(talk, tool, place)
    later.memory.take(talk.step(1))
    for one in (talk, later):
        assert one.trace({"body": f"Here: {sent}."}).guarded == (kind,)
        assert one.trace({"url": f"https://shop.example/?q={sent.replace(' ', '')}"}, "url").guarded == (kind,)
        assert one.trace({"body": "Here: nothing."}).guarded == ()


@rows("written", [CARD, CARD.replace(" ", ""), CARD.replace(" ", "-")])
@rows("sent", [CARD, CARD.replace(" ", "")])
def test_what_the_user_wrote_is_the_users(written, sent):
    talk = Talk(f"Book with {written} and {IBAN}, password: {PASSWORD}")
    read(talk, PAGE, "a text")
    assert talk.trace({"body": f"{sent} {IBAN.replace(' ', '')} {PASSWORD}"}).guarded == ()


def test_over_the_wire(trusting):
    agent = trusting.agent(prompt=FRIENDS)
    trusting.servers["web"].write(results={"fetch": text(f"Your card {CARD}, thank you.")})
    agent.call("web", "fetch", url="https://shop.example")
    assert not agent.asked_about("carol@example.com")
    assert agent.asked_about("carol@example.com", body=f"card {CARD.replace(' ', '')}")
    assert trusting.trust_of("send_email")["guarded"] == ["financial"]


@rows(
    "number",
    [
        "4539 1488 0343 6468",  # no Luhn
        "1234 5678 9012 3452",  # Luhn, but nobody issues it
        "1700000000000",  # a time in milliseconds
        "4111-22",
        "9780306406157",  # an ISBN
        "20240131123000123456",
        "DE89 3704 0044 0532 0130 01",  # no modulo 97
        "GB00 ORDER 2024 0001",
        "0000 0000 0000 0000",
        "1Z999AA10123456784",  # a parcel
    ],
)
def test_an_order_number_is_no_card(number):
    talk = Talk()
    talk.read(PAGE, None, f"Your order {number} has left. Password: required", sensitivity=frozenset())
    assert talk.trace({"body": f"Where is {number}? It is required."}).guarded == ()


def test_who_is_paid_is_not_given_away():
    """An account as the recipient is judged by where it was found; it is no secret to whom it belongs."""
    talk = Talk("Pay the landlord")
    talk.read(OWN, {"landlord": IBAN}, sensitivity=frozenset())
    assert talk.trace({"recipient": IBAN.replace(" ", "")}, "recipient").guarded == ()
    assert talk.trace({"recipient": f"x {IBAN}"}, "recipient").guarded == ("financial",)


def test_a_result_full_of_them_fills_nothing():
    talk = Talk()
    cards = [f"45391488{n:07}" for n in range(20_000)]
    digits = "0123456789"
    said = " ".join(card + digit for card in cards for digit in digits)
    packed = talk.read(PAGE, None, said, sensitivity=frozenset())
    assert len(talk.memory.details) <= 1_024
    assert len(packed) < 1024 * 1024
