"""Whether the YARA rules of Cisco's MCP scanner match a tool; run in an environment that has them.

Reads a JSON list of definitions, and prints a list of yes and no. As the scanner does, it looks at the description and
at the schema, each for itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yara

RULES = Path(yara.__file__).parent / "mcpscanner" / "data" / "yara_rules"


def main() -> None:
    rules = yara.compile(filepaths={path.stem: str(path) for path in sorted(RULES.glob("*.yara"))})
    tools = json.load(sys.stdin)
    texts = ((str(tool.get("description") or ""), json.dumps(tool.get("inputSchema") or {})) for tool in tools)
    json.dump([any(rules.match(data=text) for text in each) for each in texts], sys.stdout)


if __name__ == "__main__":
    main()
