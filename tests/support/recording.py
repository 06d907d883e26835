"""A recording of `callgate demo --auto` for the README: what it really prints, as a small SVG that plays by itself.

`make screenshots` runs the demo and writes the picture. Each step of the story is a screen; lines come one after the
other. Who prefers less motion sees the step in which the gate stops the theft.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

CALLGATE: Final = str(Path(sys.executable).with_name("callgate"))
COLUMNS: Final = 78
SECONDS: Final = 110
STILL: Final = 3  # the screen that is shown without motion: "A mail tells the agent to send money, and it obeys."
LINE_SECONDS: Final = 0.3
READ_SECONDS: Final = 3.2

_LINE: Final = 20
_LEFT: Final = 24
_TOP: Final = 62
_WIDTH: Final = 720
_SGR: Final = re.compile("\x1b\\[([0-9;]*)m")
_STEP: Final = re.compile(r"(?m)^(?=(?:\x1b\[[0-9;]*m)*[1-6]/6 )")
_CLASSES: Final = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "u", "35": "p", "36": "c"}
_STYLE: Final = """\
text { fill: #d7dee7; font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }
.b { font-weight: 700; fill: #fff } .d { fill: #8b98a7 } .r { fill: #ff8a83 } .g { fill: #7fd69c } .y { fill: #f2c25b }
.u { fill: #7db7ff } .p { fill: #d3a6ff } .c { fill: #6fd6d6 } .bar { fill: #8b98a7; font-size: 13px }"""


@dataclass(frozen=True)
class Screen:
    """Some lines, and when they are to be seen."""

    lines: tuple[str, ...]
    start: float
    end: float


def told() -> str:
    """What the demo prints on a colour terminal of this width; it has to end well."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CALLGATE_")}
    environ = kept | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [CALLGATE, "demo", "--auto"], env=environ, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return done.stdout


def screens(printed: str) -> list[Screen]:
    """One for each step. What stands before the first (addresses and folders of this run) is left out."""
    found: list[Screen] = []
    now = 0.0
    for step in _STEP.split(printed)[1:]:
        lines = tuple(line.rstrip() for line in step.rstrip().splitlines())
        end = now + len(lines) * LINE_SECONDS + READ_SECONDS
        found.append(Screen(lines, now, end))
        now = end
    return found


def picture(shown: Sequence[Screen]) -> str:
    """The whole film."""
    height = _TOP + _LINE * max(len(screen.lines) for screen in shown) + 6
    rules = [_STYLE]
    groups: list[str] = []
    for number, screen in enumerate(shown):
        rules += _moves(number, screen, shown[-1].end)
        groups += _group(number, screen, height)
    still = f"@media (prefers-reduced-motion: reduce) {{ g, .cover {{ animation: none !important }} #s{STILL} {{ visibility: visible }} .cover {{ display: none }} }}"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t d">',
        '<title id="t">callgate demo --auto</title>',
        '<desc id="d">An agent reads a poisoned mail and obeys it; the gate stops the transfer and asks a person.</desc>',
        "<style>",
        *rules,
        still,
        "</style>",
        f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="#161b22"/>',
        '<circle cx="22" cy="20" r="5.5" fill="#ff5f57"/><circle cx="40" cy="20" r="5.5" fill="#febc2e"/><circle cx="58" cy="20" r="5.5" fill="#28c840"/>',
        f'<text class="bar" x="{_WIDTH // 2}" y="25" text-anchor="middle">$ callgate demo --auto</text>',
    ]
    clip = f'<clipPath id="w"><rect width="{_WIDTH}" height="{height}" rx="10"/></clipPath><g clip-path="url(#w)">'
    return "\n".join([*head, clip, *groups, "</g>", "</svg>", ""])


def _moves(number: int, screen: Screen, length: float) -> Iterator[str]:
    """When a screen is seen, and how the cover over its lines goes down."""
    first, last = (f"{at / length * 100:.2f}%" for at in (screen.start, screen.end))
    seen = f"{first} {{ visibility: visible }} {last}, 100% {{ visibility: hidden }}"
    yield f"@keyframes s{number} {{ 0% {{ visibility: {'visible' if number == 0 else 'hidden'} }} {seen} }}"
    yield f"#s{number} {{ visibility: hidden; animation: s{number} {length:.1f}s step-end infinite }}"
    bared = screen.start + len(screen.lines) * LINE_SECONDS
    down = len(screen.lines) * _LINE
    yield (
        f"@keyframes c{number} {{ 0%, {first} {{ transform: none; animation-timing-function: steps({len(screen.lines)}) }}"
        f" {bared / length * 100:.2f}%, 100% {{ transform: translateY({down}px) }} }}"
    )
    yield f"#c{number} {{ animation: c{number} {length:.1f}s infinite }}"


def _group(number: int, screen: Screen, height: int) -> Iterator[str]:
    yield f'<g id="s{number}">'
    for row, line in enumerate(screen.lines):
        if line:
            yield f'<text x="{_LEFT}" y="{_TOP + row * _LINE}">{"".join(spans(line))}</text>'
    top = _TOP - _LINE + 5
    yield f'<rect id="c{number}" class="cover" x="8" y="{top}" width="{_WIDTH - 16}" height="{height - top}" fill="#161b22"/>'
    yield "</g>"


def spans(line: str) -> Iterator[str]:
    """A line with its colours; the text between them is escaped."""
    classes: list[str] = []
    for at, part in enumerate(_SGR.split(line)):
        if at % 2:
            codes = part.split(";")
            classes = [] if codes in ([""], ["0"]) else [_CLASSES[code] for code in codes if code in _CLASSES]
        elif part:
            text = escape(part, quote=False)
            yield f'<tspan class="{" ".join(classes)}">{text}</tspan>' if classes else text


def record(target: Path) -> Path:
    """Play the demo, and write down what it printed."""
    target.write_text(picture(screens(told())), encoding="utf-8")
    return target
