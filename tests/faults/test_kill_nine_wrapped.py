"""kill -9 of gateway, wrap, server or client at random moments under load, each alone and several together: nothing is
left running, what a server did is on record, and the next start needs nobody's hand."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from support.fork_server import Forked
from support.gateway import command
from support.sessions import until
from support.shared import shared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")

CLIENTS = 3
PARTS = ("gateway", "wrap", "server", "client")
CLIENT = Path(__file__).parents[1] / "support" / "restless.py"


class Clients:
    """Programs that call without end, and start their server again whenever it has ended."""

    def __init__(self, person, stack):
        self._person = person
        self._stack = stack
        self._running = {}
        self._number = 0

    def start(self, name):
        self._number += 1
        words = [name, str(self._number), str(self._person.folder), *self._person.argv(name)]
        process = Forked([sys.executable, str(CLIENT), *words], stdin=subprocess.DEVNULL)
        self._stack.callback(self._end, process)
        self._running[name] = process

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()

    def keep(self):
        """Those that were killed are started again, as a person would."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self.start(name)

    def of(self, part):
        """The processes of a kind, as they are now."""
        if part == "gateway":
            with suppress(Exception):
                return [self._person.status()["pid"]]
            return []
        clients = [process.pid for process in self._running.values() if process.poll() is None]
        wraps = [child for client in clients for child in children(client)]
        return {"client": clients, "wrap": wraps, "server": [one for wrap in wraps for one in children(wrap)]}[part]


def children(pid):
    with suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def wrapped(folder):
    """Servers, and the wraps that started them, by their command lines."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "ppid", "status"])
        if str(folder) in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def orphans(folder, clients):
    """What runs for nobody: the client or the wrap that started it is gone."""
    found = wrapped(folder)
    alive = {*clients.of("client"), *(process.pid for process in found)}
    return [process.info["cmdline"] for process in found if process.info["ppid"] not in alive]


def executed(folder):
    found = []
    for path in Path(folder).glob("received-*"):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    found.append(message["params"]["arguments"]["text"])
    return found


def until_more(folder, number):
    before = len(executed(folder))
    until(lambda: len(executed(folder)) > before + number)


def kill_many_times(folder, kills, seed=17):
    chance = random.Random(seed)
    with shared(folder, audit={"arguments": "whole"}) as person, ExitStack() as stack:
        person.approve()
        clients = Clients(person, stack)
        for number in range(CLIENTS):
            clients.start(f"s{number}")
        slowest = 0.0
        for number in range(kills):
            if chance.random() < 0.8:
                # With calls under way: so many more have reached a server.
                until_more(folder, 0)
            else:
                # In the middle of starting, too.
                time.sleep(chance.uniform(0, 0.4))
            # Each part alone in turn, then several together.
            parts = [PARTS[number % 4]] if number % 5 else chance.sample(PARTS, chance.randrange(2, 5))
            for part in parts:
                for pid in chance.sample(found := clients.of(part), min(len(found), chance.randrange(1, 3))):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            clients.keep()
            began = time.monotonic()
            until(lambda: not orphans(folder, clients))
            slowest = max(slowest, time.monotonic() - began)
        until_more(folder, CLIENTS)
        stack.close()
        until(lambda: not wrapped(folder))
        assert_the_log_tells_everything(person)
    # On a machine that does nothing else this is below five seconds.
    print(f"{kills} kills, {len(executed(folder))} calls; the last of what was left was gone after {slowest:.1f} s")
    return len(executed(folder))


def assert_the_log_tells_everything(person):
    with person.wrapped() as client:
        assert "result" in client.ask("tools/list")
    written = person.folder / "records"
    command(person.config, "audit", "export", "--output", str(written))
    records = [json.loads(line)["record"] for line in written.read_text().splitlines()]
    allowed = [record["arguments"]["value"].get("text") for record in records if record.get("verdict") == "allow"]
    missing = set(executed(person.folder)) - set(allowed)
    assert not missing
    command(person.config, "audit", "verify")
    command(person.config, "store", "check")


def test_whatever_is_killed_nothing_is_left_and_nothing_is_lost(tmp_path):
    assert kill_many_times(tmp_path, 6)


@pytest.mark.verify
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("kill_nine")
def test_two_hundred_times(tmp_path):
    assert kill_many_times(tmp_path, 200) > 200
