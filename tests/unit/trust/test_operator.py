"""What the operator writes: tables of callgate.toml and files of annotations. Mistakes are told, not guessed at."""

import json

import pytest

from callgate import config
from callgate.config.trust import CLASSES, Destination, Outcome, Source, data_class, organisation_label
from callgate.errors import ConfigError
from callgate.trust import model, operator, vocabulary
from support.registry import requirement
from support.table import rows

SERVER = '[servers.files]\nurl = "https://x.example/mcp"\n'
ANNOTATED = {
    "send_money": {
        "annotations": {
            "readOnlyHint": False,
            "inputMetadata": {"destination": "public", "sensitivity": "financial", "outcomes": "irreversible"},
            "returnMetadata": {"source": "system", "sensitivity": "none"},
        },
        "x-criticalArgs": ["recipient"],
    }
}


def compile_rule(text):
    """Stands for CEL: `ARGUMENT=VALUE`."""
    name, _, value = text.partition("=")
    return lambda args: args[name] == value


def labels(text):
    shown = config.show(config.parse(SERVER + text, environ={}))
    servers = {name: server["trust"] for name, server in shown["servers"].items()}
    return operator.labels(shown["trust"], servers, compile_rule=compile_rule)


def test_the_configuration_takes_the_words_of_the_room():
    def words(kind):
        return set(kind.__args__)

    assert words(Destination) == set(model.DESTINATIONS)
    assert words(Outcome) == set(model.OUTCOMES)
    assert words(Source) == set(model.SOURCES)
    assert CLASSES == vocabulary.PLAIN_CLASSES
    for text in ("com.mycorp.x", "com", "a..b", "Com.x", "x.y"):
        assert (organisation_label(text) is None) is vocabulary.is_organisation_label(text)
    assert data_class("regulated:PCI-DSS") is None
    assert data_class("regulated:") is not None


def test_tables_become_labels():
    made = labels(
        '[servers.files.trust.tools."read_*"]\nread_only = true\nsource = ["internal", "user"]\ndestination = "ephemeral"\n'
        'sensitivity = "pii"\nfields = { "**.id" = "system" }\nattribution = ["urn:org:acme:hr"]\ncritical = ["path"]\n'
        '[[servers.files.trust.rules]]\ntool = "read_*"\nwhen = "path=/hr"\nsensitivity = ["financial"]\n'
    )
    label = made.of("files", "read_file", {"path": "/x"})
    assert label.sources == {"internal", "user"}
    assert (label.outcome, label.destination, label.returns) == ("benign", "ephemeral", {"pii"})
    assert (label.critical, label.critical_declared) == (("path",), True)
    assert label.fields == {"**.id": "system"}
    assert label.attribution == ("urn:org:acme:hr",)
    assert label.origins["outcomes"] == "operator"
    assert made.of("files", "read_file", {"path": "/hr"}).returns == {"financial"}
    assert made.of("files", "other", {}).outcome == "consequential"


@requirement("TA-065")
def test_defaults_of_the_file_hold_for_the_unlabelled():
    made = labels('[trust.defaults]\nsource = "internal"\noutcomes = "benign"\nopen_world = false\n')
    label = made.of("files", "anything")
    assert label.trusted_source
    assert label.outcome == "benign"
    assert label.origins["outcomes"] == "default"


@requirement("TA-074")
def test_labels_of_an_organisation():
    made = labels('[trust]\nlabels = ["com.mycorp.x"]\n[servers.files.trust.tools.t]\nsensitivity = "com.mycorp.x"\n')
    assert made.of("files", "t").returns == {"com.mycorp.x"}
    with pytest.raises(ConfigError, match=r'callgate.toml:4: .*sensitivity: nobody defined the label "com.mycorp.y"'):
        labels('[servers.files.trust.tools.t]\nsensitivity = "com.mycorp.y"\n')


@rows("nested", [False, True])
def test_a_file_of_annotations(tmp_path, nested):
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"banking": ANNOTATED, "other": {}} if nested else ANNOTATED))
    key = 'annotations_key = "banking"\n' if nested else ""
    made = labels(
        f'[servers.files.trust]\nannotations = "{file}"\n{key}[servers.files.trust.tools.send_money]\naccepts = "none"\n'
    )
    label = made.of("files", "send_money", {})
    assert (label.outcome, label.destination, label.critical) == ("irreversible", "public", ("recipient",))
    # The table stands before the file.
    assert label.accepts == {"none"}
    assert label.returns == {"none"}
    assert label.unknown == frozenset()
    assert set(label.origins.values()) == {"operator"}


@rows(
    ("data", "key", "text"),
    [
        ({"banking": ANNOTATED}, None, 'name one with annotations_key = "NAME"'),
        ({"banking": ANNOTATED}, "bank", "there is no such part; the file has banking"),
        ([], None, "expected a table of tools"),
        ({"t": 5}, None, 'expected {"annotations": {...}}'),
        ({"t": {"annotations": {"openWorldHint": "yes"}}}, None, "t.annotations.openWorldHint: expected true or false"),
        (
            {"t": {"annotations": {"returnMetadata": {"source": "usr", "sensitivity": "none"}}}},
            None,
            "t.annotations.returnMetadata.source: expected system",
        ),
    ],
)
def test_mistakes_in_a_file_are_told(data, key, text):
    with pytest.raises(ConfigError) as caught:
        operator.annotations_of(data, "labels.json", key)
    assert text in str(caught.value)
    assert str(caught.value).startswith("labels.json: ")


def test_a_file_that_is_not_there_or_no_json(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        operator.read_annotations(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        operator.read_annotations(tmp_path / "bad.json")
    (tmp_path / "deep.json").write_text("[" * 100000)
    with pytest.raises(ConfigError, match="not valid JSON"):
        operator.read_annotations(tmp_path / "deep.json")
    (tmp_path / "large.json").write_bytes(b" " * (operator.MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        operator.read_annotations(tmp_path / "large.json")
