"""A call whose texts mislead the eye is shown on a device: it gets the lines of the page, spelt out."""

import pytest

from callgate.canonical import canonical
from support.console import AGENT
from support.devices import Phone, client, gated
from support.registry import requirement

HIDDEN = "abc\u202egnp.exe\u200b\u2066\x1b[2J\r\x00 \U0001f600\u0301\u0301\u0301\u0301"
ARGUMENTS = {"to\u200b": HIDDEN, "text": "first\nApproved by: the bank\nyes", "n": 5}


@pytest.fixture
async def phone(console):
    return await Phone.enrolled(console, await console.sign_in("anna"))


def texts(value):
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@requirement("VA-181")
async def test_nothing_that_a_device_gets_is_invisible(console, phone, capsys):
    tool = gated(tool="pay\u202e")
    asked = await console.approvals.ask(
        tool,
        ARGUMENTS,
        canonical(ARGUMENTS),
        "anna",
        caller="caller",
        agent=AGENT | {"client": f"Helper {HIDDEN[:4]}", "peer": HIDDEN[:9]},
        why="because\n\u202eof it\x07",
    )
    call = await phone.call(asked)
    shown = [*texts(call["call"]), *texts((await phone.ask("waiting")).json)]
    assert [text for text in shown if not text.isprintable()] == []
    assert "\\u202e" in call["call"]["arguments"]
    assert "\\u200b" in " ".join(call["call"]["lines"])
    # Each line that a value pretends to be is inside the value's own.
    assert not any(line.strip() in ("Approved by: the bank", "yes") for line in call["call"]["lines"])
    client.show(call["call"])
    printed = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert "exe" in printed


async def test_a_device_with_a_misleading_name(console):
    anna = await console.sign_in("anna")
    phone = await Phone.made(console, "anna", "Pixel\u202e”, with a passkey\x07")
    issued = await console.post("/devices/add/options", {"line": phone.device.line()}, anna)
    assert "\\u202e" in issued.json["displayText"]
    assert (await phone.enrol(anna)).status == 200
    [held] = await console.approvals.shelf.credentials("anna", method="device")
    assert held.name.isprintable()
    for path in ("/me", "/people/anna"):
        page = await console.get(path, anna)
        assert "\u202e" not in page.text
