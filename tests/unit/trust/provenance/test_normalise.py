"""One spelling for each date, time, number, address and link."""

from callgate.trust.provenance import normalise
from support.table import rows

DATE, TIME = normalise.DATE, normalise.TIME


def atoms(text: str) -> list[str]:
    return [atom for word in normalise.sequence(text) for atom in normalise.atoms(word)]


@rows(
    ("text", "wanted"),
    [
        ("$1,200.00", ["1200"]),
        ("1200.0", ["1200"]),
        ("98.70", ["98.7"]),
        ("-5", ["-5"]),
        ("19.5%", ["19.5"]),
        ("2024-05-26T17:00:00Z", [f"{DATE}2024-05-26", f"{TIME}17:00"]),
        ("May 26th, 2024", [f"{DATE}2024-05-26"]),
        ("26 May", [f"{DATE}-05-26"]),
        ("the 3rd of June 2024 at 4pm", ["the", f"{DATE}2024-06-03", "at", f"{TIME}16:00"]),
        ("3 december 10 am", [f"{DATE}-12-03", f"{TIME}10:00"]),
        ("december 10, 3 pm", [f"{DATE}-12-10", f"{TIME}15:00"]),
        ("26.05.2024", [f"{DATE}2024-05-26"]),
        ("10:00 AM", [f"{TIME}10:00"]),
        ("12:30 a.m.", [f"{TIME}00:30"]),
        ("HTTPS://www.Example.com/a/", ["example.com/a"]),
        ("(John.Doe@Example.com),", ["john.doe@example.com"]),
        ("GB29 NWBK 6016 1331 9268 19", ["gb29nwbk60161331926819"]),
        ("Bob's “plan”", ["bob", "plan"]),
        ("#general, @ann", ["general", "ann"]),
        ("ﬁle\u200bname", ["filename"]),
    ],
)
def test_each_thing_has_one_spelling(text, wanted):
    assert atoms(text) == wanted


def test_a_date_leaves_no_number_behind():
    assert "13" not in atoms("on June 13 or May 7, June 13 again")
    assert "7" not in atoms("May 7 June 13")


def test_a_month_that_is_only_a_word_stays_one():
    assert atoms("you may go, I am here") == ["you", "may", "go", "i", "am", "here"]


def test_pieces_are_all_that_a_value_is_put_together_from():
    assert normalise.pieces("john.doe-7@mail.example.com") == ["john", "doe", "7", "mail", "example", "com"]


def test_scripts_without_blanks_are_taken_sign_by_sign():
    assert atoms("请发送给张伟") == list("请发送给张伟")


@rows("number", [1200, 1200.0])
def test_a_number_is_what_its_text_is(number):
    assert [normalise.number(number)] == atoms("$1,200.00")


def test_details_are_long_and_full_of_digits():
    text = "Emma, passport HGK137803, card 4237-4252-7456-2574, on 2024-05-26 at 10:00, room 1204"
    assert normalise.details(text) == {"hgk137803", "4237-4252-7456-2574"}
