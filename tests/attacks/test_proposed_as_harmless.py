"""A server words its tool so that the review proposes a mild label for it."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from callgate.trust.effects import EFFECTS, GRAVE
from callgate.trust.proposing import propose
from support.table import rows

READS = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}


def entry(name="get_status", text="Gets the status of the project.", arguments=("path",), **more):
    properties = {one: {"type": "string"} for one in arguments}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": text, "inputSchema": schema, "annotations": READS, **more}


def effects(**how):
    return propose(entry(**how)).label.effects


@rows(
    ("how", "effect"),
    [
        ({"name": "delete_project"}, "destroys"),
        ({"name": "projectDelete"}, "destroys"),
        ({"name": "get_and_delete_project"}, "destroys"),
        ({"name": "list_or_purge"}, "destroys"),
        ({"name": "send_status"}, "sends"),
        ({"name": "run_status"}, "runs"),
        ({"text": "Deletes the project."}, "destroys"),
        ({"text": "Gets the status. Also deletes what is old."}, "destroys"),
        ({"text": "Gets the status and sends it to the team."}, "sends"),
        ({"text": "Gets the status.\n\nThis tool will execute the hooks of the project."}, "runs"),
        ({"title": "Erase the project"}, "destroys"),
        ({"arguments": ("path", "recipient")}, "sends"),
        ({"arguments": ("path", "cc")}, "sends"),
        ({"arguments": ("path", "recipientEmail")}, "sends"),
        ({"arguments": ("path", "webhook_url")}, "sends"),
        ({"arguments": ("command",)}, "runs"),
        ({"arguments": ("path", "shellCommand")}, "runs"),
        ({"arguments": ("sql",)}, "runs"),
        ({"name": "status", "text": "", "arguments": ("python_code",)}, "runs"),
        ({"annotations": {"destructiveHint": True}}, "destroys"),
    ],
)
def test_name_text_and_schema_are_never_talked_down(how, effect):
    assert effect in effects(**how)


@rows(
    ("name", "arguments", "effect"),
    [
        # Who may do what, whatever the argument is called.
        ("open_door", (), "destroys"),
        ("open_gate", (), "destroys"),
        ("update_sharing", ("file",), "destroys"),
        ("set_auto_forwarding", ("enabled", "email_address"), "destroys"),
        ("put_bucket_policy", ("name", "text"), "destroys"),
        ("attach_user_policy", ("name", "arn"), "destroys"),
        ("update_dns_record", ("zone_id", "content"), "destroys"),
        ("set_object", ("path", "acl"), "destroys"),
        ("set_visibility", ("path", "public"), "destroys"),
        ("make_public", ("file",), "destroys"),
        ("set_env", ("name", "value"), "destroys"),
        ("rotate_secret", ("id",), "destroys"),
        ("activate_user", ("id",), "destroys"),
        ("create_payout", ("amount", "destination"), "destroys"),
        # What runs because it was put there.
        ("npm_install", ("packages",), "runs"),
        ("install_chart", ("name", "repo"), "runs"),
        ("apply_config", ("manifest",), "runs"),
        ("trigger_build", ("job",), "runs"),
        ("write_stdin", ("text",), "runs"),
        ("write_query", ("query",), "runs"),
        # A place that others have, or look at.
        ("create_file", ("owner", "repo", "path", "content"), "sends"),
        ("put_object", ("bucket", "key", "body"), "sends"),
        ("put_object", ("bucket_name", "key", "body"), "sends"),
        ("set_topic", ("channel_id", "topic"), "sends"),
        ("create_filter", ("query", "forward"), "sends"),
        # A change of what nobody knows the word for may be one of who sees, gets or runs something.
        ("create_deployment", ("name", "image"), "sends"),
        ("add_deploy_key", ("title", "key"), "sends"),
        ("connect_to_database", ("connection_string",), "sends"),
        ("tunnel_open", ("port",), "sends"),
        ("shield_drop", ("name",), "destroys"),
        ("export_contacts", ("group", "destination"), "sends"),
    ],
)
def test_what_opens_runs_or_leaves_is_no_mere_change(name, arguments, effect):
    assert effect in effects(name=name, text=f"{name}.", arguments=arguments)


@rows(
    ("name", "arguments", "effects_"),
    [
        ("list_users", ("group",), ("reads_others",)),
        ("get_bucket_policy", ("bucket",), ("reads_others",)),
        ("read_file", ("path",), ("reads_own",)),
        ("search_vault", ("vault", "query"), ("reads_own",)),
        ("search_shared_vault", ("vault", "query"), ("reads_others",)),
        ("list_channels", ("channel_id",), ("reads_others",)),
        ("update_note", ("note_id", "text"), ("changes",)),
        ("git_checkout", ("repo_path", "branch"), ("changes",)),
        ("append_to_file", ("path", "text"), ("changes",)),
        ("create_task_list", ("workspace", "title"), ("changes",)),
        ("task_complete", ("task_id", "note"), ("changes",)),
        ("export_notes", ("format",), ("reads_own",)),
    ],
)
def test_reads_and_changes_stay_what_they_are(name, arguments, effects_):
    assert effects(name=name, text=f"{name}.", arguments=arguments, annotations={}) == effects_


def test_files_that_are_kept_where_others_put_theirs_are_what_others_wrote():
    assert effects(name="search_files", text="Searches for files in Google Drive.") == ("reads_others",)
    assert effects(name="search_files", text="Searches for files below a folder.") == ("reads_own",)


@rows(
    ("text", "effect"),
    [
        ("Gets the status. Older ones are deleted.", "destroys"),
        ("Gets the status, which then is sent to the team.", "sends"),
        ("Gets the status, which was sent by the team.", None),
        ("Gets the status of all members, who then get word of it.", "sends"),
        ("Gets the status and lets everybody know.", "sends"),
        ("Gets the status. If a name is given, it gets paid.", "sends"),
        ("Gets files that are shared with the team.", None),
        ("Gets the status. Nothing is deleted.", None),
        ("Gets the status. Is called each day; the list is ordered by date.", None),
    ],
)
def test_what_is_done_to_something_counts_too(text, effect):
    assert effects(text=text) == ("reads_own",) if effect is None else effect in effects(text=text)


@rows(
    "text",
    [
        "Zeigt den Zustand an und schickt ihn danach der genannten Stelle zu.",
        "Affiche une page puis efface toutes les autres pour toujours.",
        "Gets the status. 如果给出对方则同时向其付款。",
        "Показывает состояние проекта и удаляет его.",
    ],
)
def test_a_text_that_cannot_be_read_is_not_taken_for_a_read(text):
    assert propose(entry(text=text)).label.effects == ()


def test_an_argument_within_another_counts():
    inner = {
        "type": "object",
        "properties": {"delivery": {"type": "object", "properties": {"bcc": {"type": "string"}}}},
    }
    assert effects(inputSchema=inner)[0] == "sends"


def test_an_address_to_go_to_makes_a_read_one_of_what_others_wrote():
    assert effects(name="get_file", arguments=("path", "url")) == ("reads_others",)


def test_what_only_an_annotation_says_is_said_to_be_so():
    made = propose(entry(name="zephyr", text="Zephyr.", arguments=("path",)))
    assert made.basis == "server"
    assert made.line.endswith("(only its server says so)")


def test_without_any_word_it_stays_unknown():
    made = propose({"name": "zephyr", "inputSchema": {"type": "object"}})
    assert made.label.effects == ()
    assert made.label.said().outcomes is None


@pytest.mark.parametrize("broken", [None, 3, [], {"name": 5}, {"name": "x", "inputSchema": {"properties": []}}])
def test_an_entry_of_any_shape_gets_no_mild_label(broken):
    assert propose(broken).label.effects == ()


def test_a_known_package_whose_text_was_swapped_gets_the_graver_label():
    catalogue = json.loads(
        files("callgate.trust.catalogue").joinpath("npm-modelcontextprotocol-server-filesystem.json").read_text("utf-8")
    )
    tool = next(name for name, one in catalogue["tools"].items() if one["effects"] == ["reads_own"])
    known = "npm:@modelcontextprotocol/server-filesystem@2026.8.31"
    assert propose(entry(name=tool, text="Deletes the file."), known).label.effects[0] == "destroys"
    assert propose(entry(name=tool, arguments=("path", "recipient")), known).label.effects[0] == "sends"
    # A server of another name gets nothing from the catalogue.
    assert propose(entry(name=tool), "npm:@evil/server-filesystem@1.0.0").basis != "catalogue"


def test_every_grave_effect_asks_and_no_read_does():
    from callgate.trust.effects import Effects

    for effect in EFFECTS:
        said = Effects((effect,)).said()
        risky = "irreversible" in (said.outcomes or ()) or ("public" in (said.destination or ()) and not said.read_only)
        assert risky == (effect in GRAVE)
