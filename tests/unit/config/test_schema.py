import json
import tomllib

import jsonschema
import msgspec
import pytest

from callgate import config
from callgate.config.rules import Section, peel
from callgate.errors import ConfigError
from support.table import rows

VALID = """
[gateway]
listen = "127.0.0.1:1"
[limits]
message_bytes = "32 MiB"
check_seconds = 1
[store]
url = "sqlite:///x.db"
[servers.a]
url = "https://x/mcp"
headers = { A = "b" }
sessions = 3
[servers.b]
command = ["x"]
"""

validator = jsonschema.Draft202012Validator(config.schema())


def test_the_schema_is_a_schema_and_names_its_dialect():
    jsonschema.Draft202012Validator.check_schema(config.schema())
    assert config.schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@rows("text", ["", VALID])
def test_a_right_file_fits_the_schema(text):
    config.parse(text)
    assert list(validator.iter_errors(tomllib.loads(text))) == []


@rows(
    "text",
    [
        "unknown = 1",
        "gateway.unknown = 1",
        "gateway.listen = 1",
        "limits.depth = 0",
        "limits.message_bytes = []",
        'logging.level = "loud"',
        "[servers.Bad]\nurl = 'http://x'",
        "[servers.a]",
        "[servers.a]\ncommand = []",
        "[servers.a]\nurl = 'http://x'\ncommand = ['x']",
        "[servers.a]\nurl = 'http://x'\nsessions = 0",
    ],
)
def test_what_the_reader_refuses_does_not_fit_the_schema(text):
    with pytest.raises(ConfigError):
        config.parse(text)
    assert list(validator.iter_errors(tomllib.loads(text)))


def sections(kind=config.Config, name=""):
    yield name, kind
    for field in msgspec.structs.fields(kind):
        bare = peel(field.type)[0]
        part = bare if isinstance(bare, type) else bare.__args__[-1]
        if isinstance(part, type) and issubclass(part, Section):
            yield from sections(part, f"{name}{field.name}.")


def test_every_key_has_a_description_and_a_default():
    definitions = config.schema()["$defs"]
    keys = 0
    for name, kind in sections():
        assert definitions[kind.__name__.removesuffix("Section")]["description"], name
        assert definitions[kind.__name__.removesuffix("Section")]["additionalProperties"] is False
        for field in msgspec.structs.fields(kind):
            keys += 1
            assert not field.required, f"{name}{field.name} has no default"
            entry = definitions[kind.__name__.removesuffix("Section")]["properties"][field.name]
            described = entry.get("description") or "$ref" in str(entry)
            assert described, f"{name}{field.name} has no description"
    assert keys > 40


@rows("key", ["message_bytes", "held_bytes"])
@rows("value", [2**21, "2 MiB"])
def test_what_the_gateway_reads_as_a_size_an_editor_takes_too(key, value):
    assert getattr(config.parse(f"[limits]\n{key} = {json.dumps(value)}").limits, key) == 2**21
    jsonschema.validate({"limits": {key: value}}, config.schema())
