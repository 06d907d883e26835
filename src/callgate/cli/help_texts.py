"""Examples of every command for its help, and what exit codes mean. The docs are made from both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

# The words of a command, and what somebody may type after `callgate`.
EXAMPLES: Final[dict[str, list[str]]] = json.loads(Path(__file__).with_name("examples.json").read_bytes())
DONE: Final = 0
FAILED: Final = 1
MISTYPED: Final = 2
INTERRUPTED: Final = 130
# What each of these verbs adds to the table.
SPECIAL: Final = {
    "callgate wrap": "Ends as the wrapped command ends: with its exit code, or by the signal that ended it; with 69 if "
    "its gateway ended.",
    "callgate serve": "Ends with 0 when it is asked to stop (Ctrl-C, SIGTERM), after the calls under way.",
    "callgate demo": "Ends with 0 when it is asked to stop; with `--auto`, only if every step happened.",
    "callgate doctor": "Ends with 1 if any finding is a problem; warnings and notes do not count.",
    "callgate check": "Ends with 1 if the configuration has a mistake.",
    "callgate review": "With `--check`, or without a terminal: ends with 1 if anything waits for review.",
    "callgate call": "Ends with 1 if the call was refused or its result is an error, 130 if you cancelled.",
    "callgate policy test": "Ends with 1 if a case comes out otherwise than it says.",
    "callgate audit verify": "Ends with 1 if a record, a checkpoint or a receipt does not hold.",
    "callgate store check": "Ends with 1 if the store cannot be used.",
}


def attach(app: typer.Typer, before: str = "") -> None:
    """Put the examples of each command under its help, where it has none of its own."""
    for command in app.registered_commands:
        words = f"{before}{command.name}"
        if not command.epilog and words in EXAMPLES:
            # \b: the lines stay lines.
            command.epilog = "\n".join(["\b", *_lines(words)])
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance, f"{before}{group.name} ")


def _lines(words: str) -> Iterator[str]:
    yield "[dim]For example:[/dim]"
    for example in EXAMPLES[words]:
        yield f"  [green]$[/green] callgate {example.replace('[', chr(92) + '[')}"


# A code, what it means, and what to do then.
EXIT_CODES: Final = (
    (DONE, "It was done, and nothing is wrong with what was looked at.", "Nothing."),
    (
        FAILED,
        (
            "It was not done, or what was looked at does not hold: a call was refused, a check found a problem, a "
            "proof fails, something waits for review."
        ),
        "Read stderr: the first line says what is wrong, the next one what to do.",
    ),
    (
        MISTYPED,
        "The command line was not understood: an unknown command or option, a value that does not fit.",
        "Read the line on stderr, and `--help` of the command, which ends with examples.",
    ),
    (
        INTERRUPTED,
        "Somebody pressed Ctrl-C, or cancelled an approval; at a yes-or-no question, Ctrl-C is a no and the code 1.",
        "Run it again if it is still wanted.",
    ),
)
