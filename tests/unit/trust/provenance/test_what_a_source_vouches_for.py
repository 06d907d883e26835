"""What an operator's word on a tool's source is worth, as the page on what trust covers says it."""

from support.remembering import Talk, reading
from support.table import rows

NAME = "ann@example.com"
LINES = f"bob@example.com\n{NAME}\ncarol@example.com"
PROSE = f"Please write to my dear old friend {NAME} as soon as you can"


@rows(
    ("structured", "text", "house", "alone"),
    [
        ({"people": [{"mail": NAME}]}, "", "trusted", "trusted"),
        (None, f'{{"mail": "{NAME}"}}', "trusted", "trusted"),
        (None, NAME, "trusted", "trusted"),
        (None, f"Ann: {NAME}", "trusted", "trusted"),
        (None, LINES, "untrusted", "trusted"),
        ({"people": LINES}, "", "untrusted", "untrusted"),
        (None, PROSE, "untrusted", "untrusted"),
        ({"note": PROSE}, "", "untrusted", "untrusted"),
    ],
)
def test_by_source(structured, text, house, alone):
    expected = {
        "system": alone,
        "user": alone,
        "internal": house,
        "trustedPublic": house,
        "untrustedPublic": "untrusted",
    }
    for source, found in expected.items():
        talk = Talk("Write to somebody")
        talk.read(reading("list_people", source), structured, *([text] if text else ()))
        assert talk.found(NAME) == found, source
        assert talk.open_world is (source == "untrustedPublic")
