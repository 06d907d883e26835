"""Commands for a person to type: a shell gives back exactly the words that were meant, in any locale."""

import shutil
import subprocess

from callgate.cli.printing import word_to_type
from support.table import rows

WORDS = [
    "plain",
    "with space",
    "it's",
    "back\\slash",
    "\u2800",
    "\u2800a0",
    "\U000e0041b",
    "\n\t\x1b[31m",
    "ü",
    "ü\u202eb'\\",
    "\u200b9",
    "\x7f",
    "$(reboot) `x` !!",
]
SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]


@rows("locale", ["C", "C.UTF-8", "POSIX"])
@rows("shell", SHELLS)
@rows("word", WORDS, ids=ascii)
def test_a_word_reaches_the_program_as_it_is(shell, locale, word):
    script = f"printf %s {word_to_type(word)}"
    done = subprocess.run([shell, "-c", script], env={"LC_ALL": locale}, capture_output=True, check=True)
    assert done.stdout == word.encode()


def test_what_cannot_be_seen_is_spelt_in_bytes():
    assert word_to_type("a\u2800") == r"$'a\xe2\xa0\x80'"
    assert all(word_to_type(word).isprintable() for word in WORDS)
