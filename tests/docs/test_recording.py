"""The recording in the README: what the demo prints, and nothing that a terminal or a mail could smuggle into a picture."""

import re
import xml.etree.ElementTree as ET

from support.pages import ROOT
from support.recording import Screen, picture, screens, spans
from support.table import rows

SVG = "{http://www.w3.org/2000/svg}"
STEPS = "addresses\n\n\x1b[1m1/6  One.\x1b[0m\n\n  a\n\x1b[1m2/6  Two.\x1b[0m\n  <b> & 3/6 of it\n"


def test_each_step_is_a_screen_and_what_stands_before_them_is_left_out():
    first, second = screens(STEPS)
    assert first.lines == ("\x1b[1m1/6  One.\x1b[0m", "", "  a")
    assert second.lines == ("\x1b[1m2/6  Two.\x1b[0m", "  <b> & 3/6 of it")
    assert (first.start, second.start) == (0.0, first.end)


@rows(
    ("line", "shown"),
    [
        ("plain <script>", "plain &lt;script&gt;"),
        ("\x1b[1;33mkey \x1b[0mrefuses", '<tspan class="b y">key </tspan>refuses'),
        ("\x1b[38;5;99modd\x1b[mrest", "oddrest"),
    ],
)
def test_colours_become_classes_and_text_stays_text(line, shown):
    assert "".join(spans(line)) == shown


def test_the_picture_is_well_formed_and_has_a_still():
    drawn = picture([Screen((f"{number}/6", "<&>"), number * 2.0, number * 2.0 + 2) for number in range(6)])
    root = ET.fromstring(drawn)
    assert [group.get("id") for group in root.iter(f"{SVG}g") if group.get("id")] == [
        f"s{number}" for number in range(6)
    ]
    assert re.search(r"prefers-reduced-motion.*#s3 { visibility: visible }", drawn)


def test_the_recording_tells_the_story_that_the_pages_tell():
    """docs/getting-started.md is held against the demo itself, so a step that was renamed there is stale here."""
    root = ET.parse(ROOT / "docs" / "images" / "demo.svg").getroot()
    shown = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    told = re.findall(r"(?m)^[1-6]/6  .+$", (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8"))
    assert len(told) == 6
    assert set(told) <= shown
    assert (ROOT / "docs" / "images" / "demo.svg").stat().st_size < 20_000
