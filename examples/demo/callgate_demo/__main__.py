"""`python -m callgate_demo [NAME] FOLDER`: an example server on stdio; without a name, the notes."""

import sys
from pathlib import Path

from callgate_demo.bank import Bank
from callgate_demo.files import Files
from callgate_demo.mail import Mail
from callgate_demo.notes import Notes
from callgate_demo.server import ToolServer

KINDS: dict[str, type[Notes | Files | Mail | Bank]] = {"notes": Notes, "files": Files, "mail": Mail, "bank": Bank}


def main(words: list[str]) -> int:
    name, folder = ("notes", *words) if len(words) == 1 else (*words, "", "")[:2]
    if len(words) not in (1, 2) or name not in KINDS:
        sys.stderr.write(f"usage: python -m callgate_demo [{'|'.join(KINDS)}] FOLDER\n")
        return 2
    kept = KINDS[name](Path(folder))
    kept.create_files()
    try:
        ToolServer(name, kept.tools).serve(sys.stdin.buffer, sys.stdout.buffer)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


sys.exit(main(sys.argv[1:]))
