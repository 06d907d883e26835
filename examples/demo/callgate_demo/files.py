"""The user's own files: what stands in them is the user's word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from callgate_demo.tool import USER, DataFlow, ExampleTool, ToolError, by_name

MAX_TEXT: Final = 100_000
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\.txt")

LANDLORD: Final = "DE89 3704 0044 0532 0130 00"
WELCOME: Final = {
    "rent.txt": f"Rent: 850.00 EUR\nDue: on the first of the month\nTo: Linde Homes\nIBAN: {LANDLORD}\n",
    "todo.txt": "Pay the rent.\nWater the plants.\nAnswer Lena about the concert.\n",
}


class Files:
    """A folder of text files, to be read only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create_files(self) -> None:
        """Make the folder, with files to read; one that is there stays as it is."""
        if self._folder.is_dir():
            return
        self._folder.mkdir(mode=0o700, parents=True)
        for name, text in WELCOME.items():
            (self._folder / name).write_text(text, encoding="utf-8")

    def tools(self) -> dict[str, ExampleTool]:
        reading = DataFlow("system", "benign", USER, "user")
        return by_name(
            ExampleTool("list_files", "List the names of the user's files.", {}, self._list, reading),
            ExampleTool("read_file", "Read one file.", {"name": "As list_files gives it."}, self._read, reading),
        )

    def _list(self, _arguments: dict[str, str]) -> str:
        return "\n".join(sorted(path.name for path in self._folder.glob("*.txt"))) or "There are no files."

    def _read(self, arguments: dict[str, str]) -> str:
        # The name is the whole guard against leaving the folder: one dot, no slash, nothing to resolve.
        if not _NAME.fullmatch(arguments["name"]):
            raise ToolError(f"{arguments['name'][:64]!r} is not a file's name; list_files has them")
        try:
            with (self._folder / arguments["name"]).open(encoding="utf-8") as file:
                return file.read(MAX_TEXT)
        except FileNotFoundError:
            raise ToolError(f"there is no file {arguments['name']!r}; list_files has their names") from None
