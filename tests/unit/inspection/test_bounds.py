"""The work grows with the text and no faster, whatever the text is."""

import importlib
import pkgutil
import re
from re import _constants, _parser

import pytest

from callgate import inspection
from callgate.inspection import InspectionContext, ToolDefinition, all_rules, inspect, is_catch_all, tokens
from callgate.inspection.data_files import load, pattern
from support.effort import work
from support.inspected import grows_with_its_text
from support.table import rows

MOST = 4_096
HOSTILE = {
    "letters": "a",
    "blanks": " ",
    "lines": "\n",
    "orders": "ignore previous ",
    "tags": "<",
    "blocks": "<system ",
    "comments": "<!--",
    "brackets": "[system:",
    "spaced letters": "i g n o ",
    "hex": "61",
    "base64": "QUJD",
    "base64 words": "aGVsbG8gdGhlcmUgeW91 ",
    "percent": "%41",
    "escapes": "\\u0041",
    "entities": "&#65;",
    "leet": "1gn0r3 ",
    "quoted": "in `a` ",
    "invisible": "\u200b",
    "tag block": "\U000e0041",
    "selectors": "\ufe01",
    "ideograms": "忽略",
    "mixed": "аa ",
    "mail": "a@a.",
    "address": "https://a",
    "shell": "curl ",
    "paths": "/.ssh",
    "variables": "a_key_",
    "stars": "a*",
    "marks": "a\u0301\u0302",
}


def patterns():
    for module in pkgutil.walk_packages(inspection.__path__, f"{inspection.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            for at, each in enumerate(compiled(value)):
                yield pytest.param(each, id=f"{module.name.rpartition('.')[2]}.{name}-{at}")
    for section, names in load("patterns", dict[str, dict[str, str]]).items():
        yield from (pytest.param(pattern(section, name), id=f"data.{section}.{name}") for name in names)


def compiled(value):
    """The patterns that a name stands for: one, or those of a tuple or a mapping."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from compiled(each)


def repeats(parsed):
    """The upper bound of every quantifier, multiplied with those it stands in."""
    for op, argument in parsed:
        if op in {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}:
            _, most, inner = argument
            yield int(most)
            yield from (int(most) * each for each in repeats(inner))
        elif op is _constants.SUBPATTERN:
            yield from repeats(argument[-1])
        elif op is _constants.BRANCH:
            yield from (each for branch in argument[1] for each in repeats(branch))
        elif op in {_constants.ASSERT, _constants.ASSERT_NOT}:
            yield from repeats(argument[1])


@rows("pattern", list(patterns()))
def test_every_quantifier_is_bounded(pattern):
    assert max(repeats(_parser.parse(pattern.pattern, pattern.flags)), default=0) <= MOST


def test_an_unbounded_quantifier_would_be_noticed():
    assert max(repeats(_parser.parse(r"(?:a+)+b"))) > MOST
    assert max(repeats(_parser.parse(r"x|(?=a*)"))) > MOST


@pytest.mark.verify
@rows("piece", HOSTILE.values(), ids=HOSTILE)
def test_twice_the_text_is_twice_the_work(piece):
    assert grows_with_its_text(piece)


def test_many_parameters_are_as_much_work_as_they_are():
    def look(size):
        schema = {"properties": {f"p_{at}": {"type": "string", "description": f"Value {at}."} for at in range(size)}}
        return work(lambda: (inspect(ToolDefinition(name="x", input_schema=schema)), is_catch_all(schema)))

    assert look(400) <= 2.2 * look(200) + 200


def test_many_neighbours_are_as_much_work_as_they_are():
    def look(size):
        around = InspectionContext("a", {"b": frozenset(f"tool_number_{at}" for at in range(size))})
        return work(lambda: inspect(ToolDefinition(name="tool_number_x", description="Uses tool_number_1."), around))

    all_rules()
    assert look(800) <= 2.2 * look(400) + 200


@rows("piece", ["send_mail ", "Use send_mail. ", "send a mail, "])
def test_a_neighbour_named_again_and_again_is_as_much_work_as_the_text(piece):
    assert grows_with_its_text(piece, InspectionContext("a", {"b": frozenset({"send_mail", "send a mail"})}))


def test_beyond_the_cap_there_is_no_more_work():
    def look(size):
        return work(lambda: inspect(ToolDefinition(description="word " * size)))

    assert look(40_000) <= 1.01 * look(20_000) + 200


def test_tokens_are_counted_in_one_pass():
    assert work(lambda: tokens("a b1{" * 4_000)) <= 2.1 * work(lambda: tokens("a b1{" * 2_000))
