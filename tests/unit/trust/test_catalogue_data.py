"""The shipped labels of well-known servers: each file is whole, and says nothing that the loader does not know."""

import json
import re
from importlib import resources

# From the gravest to the mildest.
EFFECTS = ["runs", "destroys", "sends", "changes", "reads_others", "reads_own"]
ACTS = {"runs", "destroys", "sends"}
FILES = sorted(
    (one for one in resources.files("callgate.trust").joinpath("catalogue").iterdir() if one.name.endswith(".json")),
    key=lambda one: one.name,
)
PACKAGES = {one.name: json.loads(one.read_text("utf-8")) for one in FILES}
TOOLS = [(name, tool, entry) for name, package in PACKAGES.items() for tool, entry in package["tools"].items()]


def test_there_are_many_packages_and_each_has_one_file():
    assert len(PACKAGES) >= 60
    assert len({(one["registry"], one["package"]) for one in PACKAGES.values()}) == len(PACKAGES)


def test_each_file_names_its_package():
    for name, package in PACKAGES.items():
        assert set(package) - {"data"} == {"registry", "package", "versions", "checked", "tools"}, name
        # Options by their names, and `*` for folders that stand alone.
        assert all(one == "*" or re.fullmatch(r"--?[a-z][a-z-]*", one) for one in package.get("data", ["*"])), name
        assert package["registry"] in ("npm", "pypi"), name
        spelt = re.sub(r"[^a-z0-9]+", "-", package["package"].lower()).strip("-")
        assert name == f"{package['registry']}-{spelt}.json"
        assert package["checked"], name


def test_each_file_says_for_which_versions_it_holds():
    for name, package in PACKAGES.items():
        found = re.fullmatch(r">=(\d+(?:\.\d+)*),<(\d+(?:\.\d+)*)", package["versions"])
        assert found, name
        first, end = ([int(part) for part in one.split(".")] for one in found.groups())
        assert first < end, name


def test_each_tool_has_known_effects_with_the_gravest_first():
    for name, tool, entry in TOOLS:
        effects = entry["effects"]
        assert tool.strip(), name
        assert set(entry) <= {"effects", "critical", "text"}, (name, tool)
        assert effects, (name, tool)
        assert effects == [one for one in EFFECTS if one in effects], (name, tool)


def test_each_tool_that_acts_names_the_arguments_that_decide():
    for name, tool, entry in TOOLS:
        assert "critical" in entry or not ACTS.intersection(entry["effects"]), (name, tool)
        assert all(isinstance(path, str) and path for path in entry.get("critical", [])), (name, tool)


def test_tools_are_sorted_and_stand_on_a_line_each():
    for file in FILES:
        text = file.read_text("utf-8")
        tools = list(PACKAGES[file.name]["tools"])
        assert tools, file.name
        assert tools == sorted(tools), file.name
        assert text.endswith("}\n"), file.name
        assert len(text.splitlines()) == len(tools) + 8 + ("data" in PACKAGES[file.name]), file.name
