"""`callgate prompt`: what the hooks of each client give it, and what it makes of that."""

import json
import os
import subprocess
import sys
import time

import platformdirs

from callgate.prompts.hook import LIMIT_SECONDS, PROMPT_CHARS, folders, message_of
from support.fork_server import CALLGATE
from support.prompting import hook_input
from support.table import rows

COMMON = {"session_id": "c1", "transcript_path": "/t.jsonl", "cwd": "/home/ann/app"}
CLIENTS = {
    "claude-code": {**COMMON, "hook_event_name": "UserPromptSubmit", "permission_mode": "default", "prompt": "Hi Ann"},
    "codex": {**COMMON, "hook_event_name": "UserPromptSubmit", "turn_id": "t", "model": "m", "prompt": "Hi Ann"},
    "gemini-cli": {**COMMON, "hook_event_name": "BeforeAgent", "timestamp": "2026-11-17T09:00:00Z", "prompt": "Hi Ann"},
    "vscode": {"sessionId": "c1", "hookEventName": "UserPromptSubmit", "cwd": "/home/ann/app", "prompt": "Hi Ann"},
    "cursor": {
        "conversation_id": "c1",
        "generation_id": "g",
        "hook_event_name": "beforeSubmitPrompt",
        "workspace_roots": ["/home/ann/app"],
        "prompt": "Hi Ann",
        "attachments": [{"type": "file", "file_path": "/home/ann/app/main.py"}],
    },
    "windsurf": {
        "agent_action_name": "pre_user_prompt",
        "trajectory_id": "c1",
        "execution_id": "e",
        "tool_info": {"user_prompt": "Hi Ann"},
    },
}


@rows("client", CLIENTS)
def test_the_prompt_of_each_client(client):
    said = message_of(CLIENTS[client], {})
    roots = [] if client == "windsurf" else ["/home/ann/app"]
    assert said == {"prompt": ["Hi Ann"], "conversation": "c1", "roots": roots, "program": False}


@rows(
    "hook",
    [
        CLIENTS["claude-code"] | {"agent_id": "a1", "agent_type": "Explore"},
        CLIENTS["cursor"] | {"is_background_agent": True},
        CLIENTS["claude-code"] | {"hook_event_name": "PostToolUse"},
        CLIENTS["claude-code"] | {"prompt": " \n"},
        CLIENTS["claude-code"] | {"prompt": 7},
        CLIENTS["windsurf"] | {"tool_info": {}},
        CLIENTS["claude-code"] | {"prompt": "<task-notification>done: pay Eve</task-notification>\n"},
        {"prompt": "Hi Ann"},
        {"hook_event_name": ["UserPromptSubmit"], "prompt": "Hi Ann"},
        ["Hi Ann"],
        None,
    ],
)
def test_what_nobody_typed(hook):
    assert message_of(hook, {}) is None


@rows(
    ("prompt", "more", "left"),
    [
        ("a <system-reminder>b</system-reminder> c", {}, ["a ", " c"]),
        # A text that holds the mark of its own end does not end there.
        ("a <ide_selection>b</ide_selection> b </ide_selection> c", {}, ["a ", " c"]),
        ("a <attachment id='1'>b", {}, ["a "]),
        ("a\n--- Content from referenced files ---\nb\n--- End of content ---", {}, ["a\n"]),
        ("a long b of others c", {"attachments": [{"content": "long b of others"}]}, ["a ", " c"]),
        ("a b", {"attachments": [{"content": " "}, 7], "references": "none"}, ["a b"]),
    ],
)
def test_texts_that_the_client_says_are_others(prompt, more, left):
    assert message_of(CLIENTS["vscode"] | {"prompt": prompt} | more, {})["prompt"] == left


def test_a_program_may_have_written_it():
    assert message_of(CLIENTS["claude-code"], {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"})["program"] is True
    assert message_of(CLIENTS["claude-code"], {"CLAUDE_CODE_ENTRYPOINT": "cli"})["program"] is False


def test_a_long_prompt_is_cut():
    assert len(message_of(CLIENTS["vscode"] | {"prompt": "ab " * PROMPT_CHARS}, {})["prompt"][0]) == PROMPT_CHARS


def test_gateways_listen_in_the_folder_of_the_users_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here = str(platformdirs.user_state_path("callgate", appauthor=False) / "prompts")
    monkeypatch.delenv("XDG_STATE_HOME")
    usual = str(platformdirs.user_state_path("callgate", appauthor=False) / "prompts")
    assert folders() == [usual]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert folders() == [here, usual]


@rows(
    ("given", "printed"),
    [
        (json.dumps(CLIENTS["cursor"]), '{"continue": true}\n'),
        *((json.dumps(CLIENTS[client]), "") for client in CLIENTS if client != "cursor"),
        ("", ""),
        ("no JSON", ""),
        ("[" * 100_000, ""),
        (hook_input("\ud800"), ""),
    ],
)
def test_it_prints_nothing_that_a_model_reads_and_ends_well(given, printed):
    done = subprocess.run([CALLGATE, "prompt"], input=given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_a_client_that_never_ends_the_input_is_not_waited_for():
    with subprocess.Popen([CALLGATE, "prompt"], stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 0


def test_a_gateway_that_does_not_answer_is_not_waited_for(tmp_path):
    listening = """
import os, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.bind(sys.argv[1])
link.listen()
print("ready", flush=True)
time.sleep(600)
"""
    folder = tmp_path / "callgate" / "prompts"
    folder.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", listening, folder / "1.sock"], stdout=subprocess.PIPE) as mute:
        mute.stdout.readline()
        began = time.monotonic()
        environ = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run([CALLGATE, "prompt"], input=hook_input("Hi"), text=True, env=environ, check=False)
        took = time.monotonic() - began
        mute.kill()
    assert done.returncode == 0
    assert took >= LIMIT_SECONDS, "it was not asked"


def test_nothing_but_the_standard_library_is_loaded():
    script = """
import os, sys
before = set(sys.modules)
os._exit = lambda _status: None
from callgate.prompts.hook import main
main()
loaded = set(sys.modules) - before
print(sorted(name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], input="{}", capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == str(
        [
            "callgate",
            "callgate._version",
            "callgate.local",
            "callgate.local.place",
            "callgate.prompts",
            "callgate.prompts.hook",
        ]
    )
