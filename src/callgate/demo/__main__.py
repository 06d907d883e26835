"""`python -m callgate.demo FOLDER`: the notes server on stdio."""

import sys
from pathlib import Path

from callgate.demo.notes import Notes
from callgate.demo.server import NotesServer


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m callgate.demo FOLDER\n")
        return 2
    notes = Notes(Path(sys.argv[1]))
    notes.furnish()
    try:
        NotesServer(notes).serve(sys.stdin.buffer, sys.stdout.buffer)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


sys.exit(main())
