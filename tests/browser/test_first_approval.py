"""From `callgate install` to the first call that a person approved: nothing that is said on the way leads nowhere."""

import asyncio
import json
import re
import shlex
import sys
import urllib.request

import pytest

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate_demo.mail import FRIEND
from support.browser import PATIENCE_MS, add_authenticator
from support.fork_server import CALLGATE, run
from support.installed import Home
from support.terminal import Terminal

# In backticks, or alone on a line.
COMMAND = re.compile(
    r"`((?:\S*/)?callgate [^`]+)`|^ *(?:\$ )?((?:\S*/)?callgate (?!is )[a-z-]+[^:`\n]*)$", re.MULTILINE
)
ADDRESS = re.compile(r"https?://[^\s`\"')]+")


@pytest.fixture
def home(tmp_path):
    """Somebody who uses Cursor with a mailbox and a bank."""
    made = Home(tmp_path / "home")
    servers = {
        name: {"command": sys.executable, "args": ["-m", "callgate.demo", name, str(made.path / name)]}
        for name in ("mail", "bank")
    }
    made.write(".cursor/mcp.json", json.dumps({"mcpServers": servers}, indent=2))
    # A person has none of these, or the same in the terminal and in the client.
    unset = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR")
    made.environ |= dict.fromkeys(unset, "")
    yield made
    run([CALLGATE, "stop"], env=made.environ)


def entry(home, name):
    return json.loads((home.path / ".cursor" / "mcp.json").read_text())["mcpServers"][name]


def commands_in(text):
    return list(dict.fromkeys(first or second for first, second in COMMAND.findall(text)))


def type_each(home, text):
    """Type every command that a text names, without a terminal, and open every address; what was said."""
    for address in ADDRESS.findall(text):
        with urllib.request.urlopen(address.rstrip(".,:"), timeout=30) as page:
            assert page.status == 200, address
    said = {}
    for command in commands_in(text):
        words = shlex.split(command)
        if words[1] == "uninstall":
            continue
        done = run([CALLGATE, *words[1:]], env=home.environ)
        said[words[1]] = done.stdout + done.stderr
        # `callgate review` says with 1 that something waits.
        assert done.returncode == 0 or (words[1] == "review" and "To decide on a terminal" in done.stderr), command
        assert "callgate: " not in done.stderr, command
    return said


def link_in(text):
    return next(line.strip() for line in text.splitlines() if "/enrol#" in line)


def review(screen):
    """Approve everything, key by key."""
    screen.expect("[q] quit")
    screen.press(" ")
    # Each of the bank, where one has findings, then all of the mailbox.
    for _ in range(3):
        screen.expect("[a] approve")
        screen.press("a")
    screen.expect("[y] store these 5 decisions")
    screen.press("y")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("transport", "kind"),
    [("internal", "this phone or computer"), pytest.param("usb", "security key", marks=pytest.mark.verify)],
)
async def test_install_leads_to_the_first_call_that_a_person_approves(home, browser, transport, kind):
    # By the person, besides the review; after it comes the restart of the client.
    done = ["make setup"]

    def press(screen, keys):
        done.append(keys)
        screen.press(keys)

    context = await browser.new_context(locale="en-GB")
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await add_authenticator(page, transport=transport)
    done.append("callgate install")
    with Terminal([CALLGATE, "install"], env=home.environ, columns=200, rows=150) as screen:

        async def expect(text):
            return await asyncio.to_thread(screen.expect, text)

        await expect("Change these 2 files? [y/N]:")
        press(screen, "y\n")
        await expect("Next: a passkey, with which you approve calls, then the review of 5 tools.")
        await page.goto(link_in(await expect("Ctrl-C leaves the link valid.")))
        for step in ("Create passkey", "I have saved them"):
            done.append(step)
            await page.get_by_role("button", name=step).click()
        await expect(f"is enrolled: {kind}.")
        await asyncio.to_thread(review, screen)
        await expect('Cursor: "Developer: Reload Window"')
        assert await asyncio.to_thread(screen.end) == 0
    assert len(done) <= 5, done
    assert screen.text.count("Restart") == 1
    assert commands_in(screen.text)[-1].endswith("callgate uninstall")
    await asyncio.to_thread(type_each, home, screen.text)

    with home.started(entry(home, "mail")) as mail, home.started(entry(home, "bank")) as bank:
        for server in (mail, bank):
            await asyncio.to_thread(server.shake_hands)
        assert await asyncio.to_thread(mail.tools) == ["list_mail", "read_mail", "search_mail"]
        await asyncio.to_thread(mail.ask, "tools/call", {"name": "read_mail", "arguments": {"number": "1"}})
        order = {"payee": "Lena Ortiz", "iban": FRIEND, "amount": "42.00"}
        paying = asyncio.create_task(
            asyncio.to_thread(bank.ask, "tools/call", {"name": "transfer", "arguments": order})
        )
        status = json.loads(run([CALLGATE, "status", "--json"], env=home.environ).stdout)
        while not (waiting := json.loads(run([CALLGATE, "approvals", "list", "--json"], env=home.environ).stdout)):
            await asyncio.sleep(0.05)
        await page.goto(f"{status['address']}/approve/{waiting[0]['id']}")
        await page.get_by_role("button", name="Approve with passkey").click()
        reply = await asyncio.wait_for(paying, 60)
    assert "Transferred 42.00 EUR" in json.dumps(reply)
    await context.close()


def test_what_a_script_is_told_works_too(home):
    """Each text names what to type next, and each of those works when it is typed."""
    told = run([CALLGATE, "install", "--yes"], env=home.environ).stdout
    enroll, review_, undo = (shlex.split(command)[1:] for command in commands_in(told))
    assert (enroll[0], review_, undo) == ("enroll", ["review"], ["uninstall"])
    assert told.count("Restart") == 1
    type_each(home, told)
    looked = run([CALLGATE, "doctor"], env=home.environ).stdout
    assert "callgate enroll" in looked
    said = type_each(home, looked)
    origin, _, ticket = link_in(said["enroll"]).partition("/enrol#")
    begun = post(origin, "/enrol/begin", {"ticket": ticket})
    post(origin, "/enrol/finish", {"response": SoftwareAuthenticator(origin).create(begun["options"]), "name": "key"})
    # The client starts its servers, and their tools wait.
    for name in ("mail", "bank"):
        with home.started(entry(home, name)) as server:
            server.shake_hands()
            assert server.tools() == []
    looked = run([CALLGATE, "doctor"], env=home.environ).stdout
    assert "5 tools for review" in looked
    type_each(home, looked)
    # Typed again on a terminal, it leads to what is missing.
    with Terminal([CALLGATE, "install"], env=home.environ, columns=200, rows=150) as screen:
        screen.expect("Nothing to do.")
        screen.expect("Next: the review of 5 tools.")
        review(screen)
        assert screen.end() == 0
    assert "Restart" not in screen.text
    type_each(home, run([CALLGATE, "doctor"], env=home.environ).stdout)
    done = run([CALLGATE, "install", "--yes"], env=home.environ)
    assert done.stdout.rstrip().endswith("Nothing to do.")
    assert run([CALLGATE, "uninstall", "--yes"], env=home.environ).returncode == 0
    assert run([CALLGATE, "status"], env=home.environ).returncode == 1


def post(origin, path, body):
    headers = {"Content-Type": "application/json", "Origin": origin}
    request = urllib.request.Request(origin + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
