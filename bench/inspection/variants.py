"""Training data that is made: attacks planted in honest definitions, and honest sentences that look alike."""

from __future__ import annotations

import copy
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("variants.toml")
_SLOT = re.compile(r"<([a-z]+)>")
_CHOICE = re.compile(r"\{([^{}]*)\}")


class Variants:
    """Made from a seed, so that the same ones are made each time."""

    def __init__(self, seed: int) -> None:
        self._file: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
        self._random = random.Random(seed)

    def _filled(self, line: str) -> str:
        for _ in range(6):
            line = _SLOT.sub(lambda found: self._line(self._file["slots"][found[1]]), line)
            while _CHOICE.search(line):
                line = _CHOICE.sub(lambda found: self._random.choice(found[1].split("|")), line)
            if not _SLOT.search(line):
                break
        line = re.sub(r" {2,}", " ", line).strip()
        return line[:1].upper() + line[1:]

    def _line(self, lines: str) -> str:
        return self._random.choice([one for one in lines.splitlines() if one.strip()])

    def attacks(self, carriers: list[dict[str, Any]], each: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """So many of each group, each in another definition."""
        for name, group in self._file["attacks"].items():
            for _ in range(each):
                text = self._filled(self._line(group["lines"]))
                yield (
                    name,
                    self._planted(self._random.choice(carriers), text, self._random.choice(group["places"].split())),
                )
        for sink in self._file["names"]["sinks"].split():
            yield "sinks", self._with_parameter(self._random.choice(carriers), sink)

    def honest(self, carriers: list[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
        group = self._file["honest"]
        for _ in range(count):
            text = self._filled(self._line(group["lines"]))
            yield self._planted(self._random.choice(carriers), text, self._random.choice(group["places"].split()))

    def _planted(self, carrier: dict[str, Any], text: str, place: str) -> dict[str, Any]:
        tool: dict[str, Any] = copy.deepcopy(carrier)
        if place == "tag":
            tag = self._filled("<tag>")
            text = self._random.choice(
                [f"<{tag}>{text}</{tag}>", f"[{tag}] {text}", f"{tag}: {text}", f"\n\n**{tag}** {text}"]
            )
        if place == "title":
            tool["title"] = text
        elif place == "output":
            tool["outputSchema"] = {"type": "object", "properties": {"status": {"type": "string", "description": text}}}
        elif place == "parameter":
            properties = tool.setdefault("inputSchema", {"type": "object"}).setdefault("properties", {})
            names = [name for name, one in properties.items() if isinstance(one, dict)]
            if not names:
                properties["options"] = {"type": "string"}
                names = ["options"]
            name = self._random.choice(names)
            said = properties[name].get("description")
            properties[name]["description"] = f"{said} {text}" if said and self._random.random() < 0.5 else text
        else:
            said = tool.get("description") or ""
            tool["description"] = f"{said} {text}".strip() if self._random.random() < 0.85 else f"{text} {said}"
        return tool

    def _with_parameter(self, carrier: dict[str, Any], name: str) -> dict[str, Any]:
        tool: dict[str, Any] = copy.deepcopy(carrier)
        properties = tool.setdefault("inputSchema", {"type": "object"}).setdefault("properties", {})
        properties[name] = {"type": "string"}
        if self._random.random() < 0.5:
            properties[name]["description"] = f"{name.replace('_', ' ').capitalize()}."
        return tool
