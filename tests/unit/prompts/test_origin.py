"""Who brought a prompt, told from tables of processes."""

import os
from pathlib import Path

from callgate.prompts.origin import HookClaims, Sender, client_of, refusal
from callgate.prompts.processes import Process, _parse, chain, snapshot, variables
from support.table import rows

# Number, parent, program, terminal. 10 is a terminal client, 20 an editor with two windows.
TABLE = """
1 0 init
2 1 bash tty1
10 2 claude tty1
11 10 python tty1
12 11 node tty1
13 12 sh tty1
14 13 python tty1
30 10 sh tty1
31 30 python tty1
32 10 bash tty1
33 32 claude tty1
34 33 python tty1
35 33 sh tty1
36 35 python tty1
37 10 python
38 10 node tty1
39 38 python tty1
40 10 claude tty1
41 40 python
42 40 python
20 1 code
21 20 code
22 21 python
23 20 code
24 23 python
25 21 sh
26 25 python
27 20 sh
28 27 python
50 20 code
51 50 bash tty2
52 51 python tty2
53 51 python
60 1 sh
61 60 python
"""
GATEWAYS = {11, 22, 24, 34, 42}
PROCESSES = {
    int(words[0]): Process(int(words[0]), int(words[1]), "0", f"/bin/{words[2]}", words[3] if words[3:] else "")
    for words in map(str.split, TABLE.strip().splitlines())
}


def told(sender, gateway, said=None, marked=(), folder="/projects/app", processes=PROCESSES, gateways=GATEWAYS):
    look = processes.get
    client = client_of(look, gateway, Path(folder))
    whole = Sender(chain(look, sender), gateways, look, lambda pid: dict(marked).get(pid, ()))
    return refusal(whole, client, said or HookClaims())


@rows(
    ("sender", "gateway", "why"),
    [
        (31, 11, ""),
        (37, 11, ""),
        (14, 11, "a wrapped server"),
        (12, 11, "a wrapped server"),
        (39, 11, "more than a shell"),
        (36, 11, "more than a shell"),
        (61, 11, "another client"),
        (26, 11, "another client"),
        (36, 34, ""),
        (31, 34, "another client"),
        # A helper of the same program, started by the client itself.
        (41, 11, "an agent that the client started"),
        (41, 42, "an agent started the client"),
        (26, 22, ""),
        (26, 24, "another window"),
        (28, 22, "another window"),
        (52, 22, "another window"),
    ],
)
def test_where_a_sender_stands(sender, gateway, why):
    found = told(sender, gateway)
    assert found.startswith(why) if why else found == ""


@rows(
    ("sender", "gateway", "said", "marked", "why"),
    [
        # The editor's own process runs the hooks of all windows: the folder says which.
        (28, 22, HookClaims(["/projects/app"]), {}, ""),
        (28, 22, HookClaims(["/projects"]), {}, ""),
        (28, 22, HookClaims(["/projects/other"]), {}, "another window"),
        (28, 22, HookClaims(["/", "projects/app"]), {}, "another window"),
        # A terminal of the editor, where its agent runs commands.
        (52, 22, HookClaims(["/projects/app"]), {}, "it comes from another terminal"),
        (31, 11, HookClaims(), {31: ["CLAUDECODE"]}, "a command that an agent runs"),
        (31, 11, HookClaims(), {30: ["GEMINI_CLI"]}, "a command that an agent runs"),
        (31, 11, HookClaims(), {10: ["CLAUDE_CODE_CHILD_SESSION"]}, "an agent started the client"),
        (31, 11, HookClaims(), {31: ["CLAUDE_CODE_CHILD_SESSION"]}, ""),
        (31, 11, HookClaims(program=True), {}, ""),
        (26, 22, HookClaims(program=True), {}, "a program wrote it"),
    ],
)
def test_what_else_is_known(sender, gateway, said, marked, why):
    found = told(sender, gateway, said, marked)
    assert found.startswith(why) if why else found == ""


def test_the_number_of_a_client_that_is_gone_is_nobodys():
    client = client_of(PROCESSES.get, 11, Path("/projects"))
    later = PROCESSES | {10: PROCESSES[10]._replace(started="9")}
    whole = Sender(chain(later.get, 31), {11}, later.get, lambda _: ())
    assert refusal(whole, client, HookClaims()) == "another client sent it"


def test_the_first_process_gets_every_orphan():
    alone = {
        pid: Process(pid, parent, "0", name) for pid, parent, name in [(1, 0, "claude"), (2, 1, "py"), (3, 1, "py")]
    }
    assert told(3, 2, processes=alone, gateways={2}).startswith("the client is the first process")


def test_who_started_a_gateway_through_a_runner():
    line = [(1, 0, "init"), (5, 1, "claude"), (6, 5, "uv"), (7, 6, "python")]
    table = {pid: Process(pid, parent, "0", name) for pid, parent, name in line}
    assert client_of(table.get, 7, Path("/")).process.pid == 5
    assert client_of({7: table[7]}.get, 7, Path("/")) is None


def test_the_processes_of_this_machine():
    look = snapshot()
    own = look(os.getpid())
    assert own.parent == os.getppid()
    assert [one.pid for one in chain(look, os.getpid())][:2] == [os.getpid(), os.getppid()]
    assert look(2**22 + 1) is None
    assert "PATH" in variables(os.getpid())
    assert variables(2**22 + 1) == frozenset()


def test_what_ps_says():
    listed = """
    1     0 ??       Tue Nov 17 09:00:00 2026 /sbin/launchd
  812     1 ttys001  Tue Nov 17 09:30:01 2026 /Applications/My Editor.app/Contents/MacOS/Editor
  813     1 -        Tue Nov 17 09:30:01 2026 x
  nonsense
"""
    assert _parse(listed) == {
        1: Process(1, 0, "Tue Nov 17 09:00:00 2026", "/sbin/launchd"),
        812: Process(
            812, 1, "Tue Nov 17 09:30:01 2026", "/Applications/My Editor.app/Contents/MacOS/Editor", "ttys001"
        ),
        813: Process(813, 1, "Tue Nov 17 09:30:01 2026", "x"),
    }
