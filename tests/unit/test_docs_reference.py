import json
from typing import Annotated

import msgspec
import typer
import typer.main

from callgate.cli import build
from callgate.config.output import descriptions
from callgate.config.rules import Section
from callgate.config.server import ServerSection
from callgate.errors import Reason
from callgate.telemetry.metrics import Metrics
from docs import generate
from support.table import rows


def test_the_reference_is_what_the_code_says():
    assert list(generate.stale()) == [], "run `make docs`"


def test_a_changed_page_is_found(tmp_path):
    for name, text in generate.pages().items():
        (tmp_path / name).write_text(text)
    assert generate.stale(tmp_path) == {}
    (tmp_path / "reasons.md").write_text("old")
    (tmp_path / "config.md").unlink()
    assert list(generate.stale(tmp_path)) == ["config.md", "reasons.md"]


@rows("name", ["config.md", "reasons.md", "metrics.md"])
def test_no_cell_is_empty(name):
    rows = [line for line in generate.pages()[name].splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if "|  |" in row] == []


def test_every_key_is_in_the_reference_with_its_description():
    page = generate.config_page()
    keys = 0
    for _, kind, _ in generate._sections():
        for field in msgspec.structs.fields(kind):
            keys += 1
            text = descriptions(kind).get(field.name, "")
            assert text.endswith("."), f"{kind.__name__}.{field.name} has no description, or no sentence"
            assert text.replace("|", "\\|") in page
    assert keys == sum(line.startswith("| `") for line in page.splitlines()) - 5


def test_a_key_without_description_is_noticed():
    class Example(Section, frozen=True):
        bare: int = 0
        said: int = 0
        """It has
        one."""

    assert descriptions(Example) == {"said": "It has one."}


def test_every_reason_has_a_meaning_and_advice():
    page = generate.reasons_page()
    for reason in Reason:
        assert reason.meaning.endswith(".")
        assert reason.advice.endswith(".")
        assert f"| `{reason.value}` | {reason.status} | {reason.code} |" in page


def test_every_metric_and_label_is_described():
    page = generate.metrics_page()
    for family in Metrics().families():
        assert f"| `{family.name}` | {family.kind} |" in page
        assert family.description
        assert set(family.labels) <= set(generate._LABELS)


def test_the_published_schema_is_json():
    assert json.loads((generate.REFERENCE / "callgate.schema.json").read_text())["title"] == "callgate.toml"


def test_servers_are_documented():
    assert "## [servers.NAME]" in generate.config_page()
    assert all(f"| `{name}` |" in generate.config_page() for name in ServerSection.__struct_fields__)


def test_every_verb_is_in_the_reference_and_says_what_it_does():
    page = generate.cli_page()
    for words, command in generate._commands("callgate", typer.main.get_command(build([]))):
        assert f"## {words}\n" in page
        assert command.help, f"{words} has no help"
        bare = [
            one.name for one in command.params if not getattr(one, "hidden", False) and not getattr(one, "help", "")
        ]
        assert bare == [], f"{words} does not say what these are"


def test_a_command_is_shown_with_its_usage_arguments_and_options():
    app = typer.Typer()

    @app.command("wrap")
    def wrap(
        name: str,
        words: Annotated[list[str] | None, typer.Argument(metavar="CMD", help="What to | run.")] = None,
        url: Annotated[str, typer.Option("--url", "-u", metavar="URL", help="Where.")] = "",
        fast: Annotated[bool, typer.Option("--fast/--slow", help="How.")] = False,
        secret: Annotated[str, typer.Option(hidden=True)] = "",
    ):
        """Wrap a server.

        More of it.
        """

    @app.command("hidden", hidden=True)
    def hidden(): ...

    sub = typer.Typer()
    sub.command("two")(lambda: None)
    sub.command("one")(lambda: None)
    app.add_typer(sub, name="sub")
    commands = dict(generate._commands("callgate", typer.main.get_command(app)))
    assert list(commands) == ["callgate sub one", "callgate sub two", "callgate wrap"]
    assert generate._command("callgate wrap", commands["callgate wrap"]) == [
        "    callgate wrap [OPTIONS] NAME [CMD...]",
        "",
        "Wrap a server.\n\nMore of it.",
        "",
        "| | |",
        "|---|---|",
        "| `NAME` |  |",
        "| `[CMD...]` | What to \\| run. |",
        "| `--url, -u URL` | Where. |",
        "| `--fast, --slow` | How. |",
        "",
    ]
